//! Where the programs under test are. They are built once per test process, by cargo, so that a
//! test never runs against yesterday's daemon.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of a program of this workspace.
///
/// # Panics
/// When it cannot be built.
pub fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(build).join(name)
}

/// The workspace.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn build() -> PathBuf {
    let release = !cfg!(debug_assertions);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace()).args(["build", "--quiet", "--bins", "-p", "leafd"]);
    if release {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "the daemon does not build");
    // …/target/debug/deps/name-hash
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("no own path: {error}"));
    let directory = test.parent().and_then(Path::parent);
    directory.map_or_else(|| panic!("{} is not in a target folder", test.display()), Path::to_owned)
}
