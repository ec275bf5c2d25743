//! leafd's Debian package, built by the script that operators use, and copies of it with a higher
//! version.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::binaries;
use crate::cache::{self, run};

/// A package file.
#[derive(Debug, Clone)]
pub struct Package {
    path: PathBuf,
    version: String,
}

impl Package {
    /// Builds the package of this workspace as it is now.
    #[must_use]
    pub fn build() -> Self {
        static BUILT: OnceLock<Package> = OnceLock::new();
        BUILT.get_or_init(build).clone()
    }

    /// A package with the same contents and another version. It lives as long as the folder.
    #[must_use]
    pub fn with_version(&self, version: &str) -> (Self, TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        run(Command::new("dpkg-deb").arg("--raw-extract").args([&self.path, &tree]));
        let control = tree.join("DEBIAN/control");
        let text = std::fs::read_to_string(&control).expect("the control file");
        let old = format!("\nVersion: {}\n", self.version);
        assert!(text.contains(&old), "{text}");
        let text = text.replace(&old, &format!("\nVersion: {version}\n"));
        std::fs::write(&control, text).expect("the control file");
        let path = folder.path().join("leafd.deb");
        let fast = ["--root-owner-group", "-Zgzip", "-z1", "--build"];
        run(Command::new("dpkg-deb").args(fast).args([&tree, &path]));
        (Self { path, version: version.to_owned() }, folder)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version in the package's control file.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn build() -> Package {
    let programs = binaries::folder();
    let target = programs.parent().expect("programs are in a target folder");
    let folder = cache::folder();
    let _lock = cache::lock("package");
    let own = folder.join(format!("leafd-{}.deb", std::process::id()));
    let mut script = Command::new(binaries::workspace().join("systemd/package"));
    binaries::forget_the_test(&mut script).env("CARGO_TARGET_DIR", target);
    if cfg!(debug_assertions) {
        script.arg("--debug");
    }
    run(script.arg("--output").arg(&own));
    let path = folder.join("leafd.deb");
    std::fs::rename(&own, &path).expect("the package");
    let version = run(Command::new("dpkg-deb").arg("--field").arg(&path).arg("Version"));
    Package { path, version: version.trim().to_owned() }
}
