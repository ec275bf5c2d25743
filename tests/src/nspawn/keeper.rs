//! The shell that starts a container, and ends it when it is dropped or the test process ends.

use std::path::{Path, PathBuf};
use std::process::Child;

use crate::cleanup;

/// Runs the container in a control group of its own, since this host may not have a systemd that
/// makes one: two containers in one group would take each other's processes for strays. At the end
/// it kills process 1 of the container, and systemd-nspawn, the parent, tidies up.
const SCRIPT: &str = r#"
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

/// The shell, and the folder with its files.
#[derive(Debug)]
pub(super) struct Keeper {
    folder: PathBuf,
    shell: Child,
}

impl Keeper {
    /// Starts a container whose root is `base`.
    pub(super) fn start(base: &Path) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "a real systemd needs root: run the tests as root, or tests/run --without-systemd"
        );
        let folder = tempfile::Builder::new().prefix("leafd-systemd-").tempdir();
        // The shell removes it.
        let folder = folder.expect("a folder").keep();
        std::fs::create_dir(folder.join("tmp")).expect("a folder in it");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        // A machine's name may have letters, digits and hyphens.
        let name = name.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let name = name.trim_matches('-');
        let shell = cleanup::start(SCRIPT, [folder.as_os_str(), base.as_os_str(), name.as_ref()]);
        Self { folder, shell }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Process 1 of the container; before that runs, the process that prepares the container.
    pub(super) fn leader(&self) -> Option<u32> {
        let nspawn = self.nspawn()?;
        let children = format!("/proc/{nspawn}/task/{nspawn}/children");
        std::fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
    }

    /// Whether systemd-nspawn was started and has ended.
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
        cleanup::finish(&mut self.shell);
    }
}
