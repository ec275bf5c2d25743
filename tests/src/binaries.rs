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
    DIRECTORY.get_or_init(build).join(name)
}

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Has this process use the programs of another build, as those of a released version.
///
/// # Panics
/// When a program was used before.
pub fn use_programs_in(folder: &Path) {
    let unused = DIRECTORY.set(folder.to_owned());
    unused.unwrap_or_else(|_| panic!("a program was used before"));
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
    forget_the_test(&mut cargo);
    if release {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "the daemon does not build");
    folder()
}

/// What cargo tells a test of its package, build scripts of dependencies would take for a change,
/// and half of the workspace would be built anew each time.
pub(crate) fn forget_the_test(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Where cargo puts programs.
///
/// # Panics
/// When this program is in no folder.
pub(crate) fn folder() -> PathBuf {
    // …/target/debug/deps/name-hash for a test, …/target/debug/name for a program
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("no own path: {error}"));
    let folder = own.parent().unwrap_or_else(|| panic!("{} is in no folder", own.display()));
    match folder.parent() {
        Some(parent) if folder.ends_with("deps") => parent.to_owned(),
        _ => folder.to_owned(),
    }
}
