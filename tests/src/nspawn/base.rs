//! The root of all containers: a small Debian 12 with systemd, made once by debootstrap. Containers
//! only read it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;

/// What leafd's package and the tests need beyond a minimal Debian.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,init-system-helpers";

const SUITE: &str = "bookworm";

/// The path of the root, which the first caller makes.
pub(super) fn root() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    include_str!("base.rs").hash(&mut hasher);
    cache::made_once(&format!("{SUITE}-{:016x}", hasher.finish()), make)
}

fn make(root: &Path) {
    let mut debootstrap = Command::new("debootstrap");
    cache::run(debootstrap.args(["--variant=minbase", "--include", PACKAGES, SUITE]).arg(root));
    // Without an ID, systemd would take each boot for the first one and ask questions.
    let id: String = std::iter::repeat_with(|| fastrand::char('0'..='9')).take(32).collect();
    std::fs::write(root.join("etc/machine-id"), id + "\n").expect("an ID for the machine");
    let archives = Command::new("rm").arg("-rf").arg(root.join("var/cache/apt/archives")).status();
    assert!(archives.is_ok_and(|status| status.success()), "the packages' files stay");
}
