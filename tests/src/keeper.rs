//! Ends the daemons of a test process that was killed: a shell that waits for the end of its
//! input, which comes however the process ends, and kills what still works in the folders that it
//! was told. A test that ends by itself has no work for it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Each line is a folder. A daemon works in its own, so a number that another process got
/// meanwhile is nobody's end.
const KEEPER: &str = r#"
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

static INPUT: LazyLock<Mutex<ChildStdin>> = LazyLock::new(|| {
    let shell = Command::new("sh")
        .args(["-c", KEEPER])
        .process_group(0) // Control-C is for the tests; the keeper has to outlive them.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Mutex::new(shell.expect("sh starts").stdin.take().expect("its input"))
});

/// Has the processes that work in `folder` killed when this process has ended.
///
/// # Panics
/// When there is no shell.
pub(crate) fn watch(folder: &Path) {
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(input, "{}", folder.display()).expect("the keeper listens");
}
