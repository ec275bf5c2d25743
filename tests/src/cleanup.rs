//! Cleans up after a test process however it ends. A shell waits for the end of its input, which
//! comes even when the process is killed, and then runs its commands. Destructors are not enough:
//! statics are never dropped, and a killed process runs none.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Starts a shell whose script waits for the end of its input. `arguments` are `$1`, `$2`, ….
pub(crate) fn start<S: AsRef<OsStr>>(
    script: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Child {
    Command::new("sh")
        .args(["-c", script, "cleanup"])
        .args(arguments)
        .process_group(0) // Control-C must not reach it: it has to outlive the tests.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh starts")
}

/// Ends the input of a shell and waits until it has cleaned up.
pub(crate) fn finish(shell: &mut Child) {
    drop(shell.stdin.take());
    let _ = shell.wait();
}

/// Kills what still works in the folders that it reads, one per line. It goes by working directory
/// and not by process ID, since another process may have that ID by then.
const KILL_DAEMONS: &str = r#"
trap '' HUP INT TERM
folders=
while read -r folder; do
    folders="$folders
$folder"
done
IFS='
'
for folder in $folders; do
    [ -d "$folder" ] || continue
    pids=$(find -L /proc/[0-9]*/cwd -maxdepth 0 -samefile "$folder" 2>/dev/null | cut -d/ -f3)
    [ -z "$pids" ] || kill -9 $pids
done
"#;

static SHELL: LazyLock<Mutex<Child>> = LazyLock::new(|| Mutex::new(start(KILL_DAEMONS, [""; 0])));

/// Has the processes that work in `folder` killed when this process has ended.
pub(crate) fn kill_later(folder: &Path) {
    let mut shell = SHELL.lock().unwrap_or_else(PoisonError::into_inner);
    let input = shell.stdin.as_mut().expect("its input");
    writeln!(input, "{}", folder.display()).expect("the shell reads");
}
