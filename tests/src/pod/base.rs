//! The base of the image where no registry can be reached: Debian's smallest root, of the release
//! that the programs were built on, made once and kept in cargo's target folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tar file of it.
pub(super) fn tar() -> PathBuf {
    // …/target/debug/deps/name-hash
    let program = std::env::current_exe().expect("the own path");
    let target = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let folder = target.expect("a target folder").join("leafd-tests");
    std::fs::create_dir_all(&folder).expect("a folder for the base");
    let release = release();
    let tar = folder.join(format!("pod-base-{release}.tar"));
    // Test processes that start together wait for the first one.
    let lock = File::create(tar.with_extension("lock")).expect("a lock");
    lock.lock().expect("the lock");
    if !tar.exists() {
        let root = tempfile::tempdir_in(&folder).expect("a folder for the root");
        let new = tar.with_extension("new");
        make(&release, root.path());
        let mut command = Command::new("tar");
        command.arg("-C").arg(root.path()).args(["--exclude=./var/cache/apt", "-cf"]);
        ran(command.arg(&new).arg("."));
        std::fs::rename(&new, &tar).expect("the base");
    }
    tar
}

/// The authorities come with it, so that nothing has to be fetched while the image is built.
fn make(release: &str, root: &Path) {
    let mut command = Command::new("debootstrap");
    ran(command.args(["--variant=minbase", "--include=ca-certificates", release]).arg(root));
}

/// The name of the release that this machine runs.
fn release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").expect("/etc/os-release");
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.expect("the name of a release").trim_matches('"').to_owned()
}

fn ran(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
