//! Starts a container and ends it: a shell that waits for the end of its input, which comes when
//! the test lets go of it or the test process ends, however it ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// In a control group of its own, since there may be no systemd on this host that would make one:
/// two containers in one group would take each other's processes for strays. Process 1 of the
/// container goes first, and systemd-nspawn, its parent, tidies up.
const KEEPER: &str = r#"
trap '' HUP INT TERM
folder=$1 base=$2 name=$3
trees='/sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd'
groups=
for tree in $trees; do
    [ -e "$tree/cgroup.procs" ] || continue
    mkdir "$tree/$name" && groups="$groups $tree/$name"
done
TMPDIR=$folder/tmp GROUPS_OF_ITS_OWN=$groups sh -c '
    for group in $GROUPS_OF_ITS_OWN; do
        echo $$ >"$group/cgroup.procs"
    done
    exec systemd-nspawn --quiet --boot --directory="$1" --volatile=overlay --machine="$2" \
        --private-network --register=no --keep-unit --console=pipe
' nspawn "$base" "$name" >"$folder/console" 2>&1 </dev/null &
nspawn=$!
echo $nspawn >"$folder/pid"
read -r _
read -r leader rest <"/proc/$nspawn/task/$nspawn/children"
kill -9 ${leader:-$nspawn}
wait $nspawn
for group in $groups; do
    find "$group" -depth -type d -exec rmdir {} \;
done
rm -rf "$folder"
"#;

/// The shell, and the folder of what it needs.
#[derive(Debug)]
pub(super) struct Keeper {
    folder: PathBuf,
    shell: Child,
}

impl Keeper {
    /// Starts a container whose root is `base`.
    ///
    /// # Panics
    /// When the tests do not run as root.
    pub(super) fn start(base: &Path) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "a real systemd needs root: run the tests as root, or tests/run --without-systemd"
        );
        let folder = tempfile::Builder::new().prefix("leafd-systemd-").tempdir();
        // Removed by the shell.
        let folder = folder.expect("a folder").keep();
        std::fs::create_dir(folder.join("tmp")).expect("a folder in it");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        // What is left is the name of a machine.
        let name = name.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let shell = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .args([&folder, base])
            .arg(name.trim_matches('-'))
            .process_group(0) // Control-C is for the tests; the keeper has to outlive them.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self { folder, shell: shell.expect("sh starts") }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Process 1 of the container, once there is one; before that, whoever prepares it.
    pub(super) fn leader(&self) -> Option<u32> {
        let nspawn = self.nspawn()?;
        let children = format!("/proc/{nspawn}/task/{nspawn}/children");
        std::fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
    }

    /// Whether systemd-nspawn was started and is no more.
    pub(super) fn has_ended(&self) -> bool {
        self.nspawn().is_some_and(|nspawn| {
            let stat = std::fs::read_to_string(format!("/proc/{nspawn}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        })
    }

    /// What the container wrote to its console.
    pub(super) fn console(&self) -> String {
        std::fs::read_to_string(self.folder.join("console")).unwrap_or_default()
    }

    fn nspawn(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
