//! The base of images and containers, since no registry can be reached: a minimal Debian of this
//! machine's release, made once by debootstrap.

use std::path::PathBuf;
use std::process::Command;

use crate::cache;

/// A tar file of the base.
pub(super) fn tar() -> PathBuf {
    let release = release();
    cache::made_once(&format!("pod-base-{release}.tar"), |new| {
        let root = tempfile::tempdir_in(cache::folder()).expect("a folder for the root");
        // The certificate authorities are included, so that building the image fetches nothing.
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=ca-certificates", &release]);
        cache::run(debootstrap.arg(root.path()));
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(root.path()).args(["--exclude=./var/cache/apt", "-cf"]);
        cache::run(tar.arg(new).arg("."));
    })
}

/// The base as a folder that containers share and only read, with the places where leafctl and files of
/// the host are mounted.
pub(super) fn root() -> PathBuf {
    cache::made_once(&format!("pod-root-{}", release()), |new| {
        std::fs::create_dir(new).expect("a folder for the root");
        cache::run(Command::new("tar").arg("-C").arg(new).arg("-xf").arg(tar()));
        std::fs::write(new.join("usr/bin/leafctl"), "").expect("a place for leafctl");
    })
}

/// The name of the Debian release that this machine runs.
fn release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").expect("/etc/os-release");
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.expect("the name of a release").trim_matches('"').to_owned()
}
