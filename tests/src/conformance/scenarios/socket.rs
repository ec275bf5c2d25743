//! Where a client looks that was given no path: section 1 of the protocol page.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use leaf_client::{SOCKET_VARIABLE, SYSTEM_SOCKET};
use nix::unistd::{Gid, Uid, chown};
use serde_json::json;

use super::{Scenario, scenario};
use crate::conformance::driver::Driver;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario("variable", "`LEAFD_SOCKET` names the socket, unless it is empty", variable),
    scenario(
        "runtime_directory",
        "Users other than root look into `$XDG_RUNTIME_DIR/leafd` if it is a directory",
        runtime_directory,
    ),
    scenario(
        "temporary_directory",
        "`/tmp/leafd-UID` counts only as a directory of this user that nobody else can write to",
        temporary_directory,
    ),
];

const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// A user ID that no other test program uses now.
fn somebody() -> u32 {
    100_000 + std::process::id()
}

/// The path that a driver of this user finds, with these variables.
fn found(stage: &Stage<'_>, uid: u32, variables: &[(&str, &Path)]) -> PathBuf {
    let own = stage.command();
    let mut command = Command::new("setpriv");
    if uid != 0 {
        // It may read what root may, since languages are installed anywhere.
        let read = "+dac_read_search,+dac_override";
        command.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
        command.args(["--clear-groups", "--inh-caps", read, "--ambient-caps", read]);
    }
    command.arg(own.get_program()).args(own.get_args());
    command.env_remove(RUNTIME).env_remove(SOCKET_VARIABLE);
    command.envs(variables.iter().copied()).current_dir("/");
    let mut driver = Driver::start(command);
    let line = driver.send("socket_path", json!({}));
    let path = driver.wait(line).ok()["path"].as_str().map(PathBuf::from);
    driver.finish();
    path.expect("a path")
}

fn root_is_here() {
    assert!(Uid::effective().is_root(), "only root can act as another user");
}

fn variable(stage: &mut Stage<'_>) {
    root_is_here();
    let (named, empty) = (Path::new("/nowhere/x.sock"), Path::new(""));
    for uid in [0, somebody()] {
        assert_eq!(found(stage, uid, &[(SOCKET_VARIABLE, named)]), named);
        assert_eq!(found(stage, uid, &[(SOCKET_VARIABLE, empty)]), Path::new(SYSTEM_SOCKET));
    }
}

fn runtime_directory(stage: &mut Stage<'_>) {
    root_is_here();
    let base = stage.folder().to_owned();
    std::fs::set_permissions(&base, Permissions::from_mode(0o755)).expect("chmod");
    let inside = base.join("leafd");
    let runtime = [(RUNTIME, base.as_path())];
    assert_eq!(found(stage, somebody(), &runtime), Path::new(SYSTEM_SOCKET), "no directory");
    std::fs::write(&inside, "").expect("a file");
    assert_eq!(found(stage, somebody(), &runtime), Path::new(SYSTEM_SOCKET), "a file");
    std::fs::remove_file(&inside).expect("its removal");
    std::fs::create_dir(&inside).expect("a directory");
    assert_eq!(found(stage, somebody(), &runtime), inside.join("leafd.sock"));
    assert_eq!(found(stage, 0, &runtime), Path::new(SYSTEM_SOCKET), "root does not look there");
    let named = Path::new("/nowhere/x.sock");
    let both = [runtime[0], (SOCKET_VARIABLE, named)];
    assert_eq!(found(stage, somebody(), &both), named, "the variable comes first");
    let empty = [(RUNTIME, Path::new(""))];
    assert_eq!(found(stage, somebody(), &empty), Path::new(SYSTEM_SOCKET), "an empty variable");
}

/// Removes what a test made in `/tmp`.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn temporary_directory(stage: &mut Stage<'_>) {
    root_is_here();
    let uid = somebody();
    let path = PathBuf::from(format!("/tmp/leafd-{uid}"));
    let give = |owner: u32, mode: u32| {
        let directory = Removed(path.clone());
        DirBuilder::new().mode(0o700).create(&path).expect("a directory in /tmp");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
        chown(&path, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner))).expect("chown");
        directory
    };
    for mode in [0o700, 0o755, 0o500] {
        let _directory = give(uid, mode);
        assert_eq!(found(stage, uid, &[]), path.join("leafd.sock"), "mode {mode:o}");
        assert_eq!(found(stage, 0, &[]), Path::new(SYSTEM_SOCKET), "root does not look there");
    }
    for mode in [0o777, 0o720, 0o702, 0o1777] {
        let _directory = give(uid, mode);
        assert_eq!(found(stage, uid, &[]), Path::new(SYSTEM_SOCKET), "mode {mode:o}");
    }
    for other in [0, uid + 1] {
        let _directory = give(other, 0o755);
        assert_eq!(found(stage, uid, &[]), Path::new(SYSTEM_SOCKET), "it belongs to {other}");
    }
    let target = stage.folder().join("target");
    std::fs::create_dir(&target).expect("a directory");
    std::fs::set_permissions(stage.folder(), Permissions::from_mode(0o755)).expect("chmod");
    chown(&target, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid))).expect("chown");
    {
        let _link = Removed(path.clone());
        symlink(&target, &path).expect("a link");
        assert_eq!(found(stage, uid, &[]), Path::new(SYSTEM_SOCKET), "a link");
    }
    let _file = Removed(path.clone());
    std::fs::write(&path, "").expect("a file");
    chown(&path, Some(Uid::from_raw(uid)), None).expect("chown");
    assert_eq!(found(stage, uid, &[]), Path::new(SYSTEM_SOCKET), "a file");
}
