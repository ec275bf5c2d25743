//! The root of all containers: a small Debian 12 with systemd, made once by debootstrap and kept
//! beside the programs in cargo's target folder. Nobody writes to it.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries;

/// What leafd's package and the tests need besides the essentials.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,init-system-helpers";

const SUITE: &str = "bookworm";

/// Where it is. The first caller waits for it to be made.
///
/// # Panics
/// When debootstrap fails.
pub(super) fn root() -> PathBuf {
    let folder = binaries::folder().join("leafd-tests");
    std::fs::create_dir_all(&folder).expect("a folder for the root");
    let mut hasher = DefaultHasher::new();
    include_str!("base.rs").hash(&mut hasher);
    let root = folder.join(format!("{SUITE}-{:016x}", hasher.finish()));
    // Test processes that start together wait for the first one.
    let lock = File::create(root.with_extension("lock")).expect("a lock");
    lock.lock().expect("the lock");
    if !root.exists() {
        let new = root.with_extension("new");
        if new.exists() {
            // Somebody was ended in the middle of it.
            std::fs::remove_dir_all(&new).expect("room for the root");
        }
        make(&new);
        std::fs::rename(&new, &root).expect("the root");
    }
    root
}

fn make(root: &Path) {
    let output = Command::new("debootstrap")
        .args(["--variant=minbase", "--include", PACKAGES, SUITE])
        .arg(root)
        .output()
        .expect("debootstrap starts");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // With an ID it is no first boot, at which systemd would ask questions.
    let id: String = std::iter::repeat_with(|| fastrand::char('0'..='9')).take(32).collect();
    std::fs::write(root.join("etc/machine-id"), id + "\n").expect("an ID for the machine");
    let archives = Command::new("rm").arg("-rf").arg(root.join("var/cache/apt/archives")).status();
    assert!(archives.is_ok_and(|status| status.success()), "the packages' files stay");
}
