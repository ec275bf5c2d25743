//! The programs under test. Cargo builds them once per test process, so that no test runs an outdated
//! daemon.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of a program of this workspace.
pub fn program(name: &str) -> PathBuf {
    DIRECTORY.get_or_init(build).join(name)
}

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process use the programs in `folder`, such as those of a released version. Has to be
/// called before the first use of a program.
pub fn use_programs_in(folder: &Path) {
    let unused = DIRECTORY.set(folder.to_owned());
    unused.unwrap_or_else(|_| panic!("a program was used before"));
}

/// The root of the workspace.
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

/// Builds an example of the daemon, and returns its path.
pub fn example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // As tests are built, and as `systemd/package --debug` builds it: most of it is there already.
    let what = ["build", "--quiet", "--workspace", "--all-features", "--example", name];
    cargo.current_dir(workspace()).args(what);
    forget_the_test(&mut cargo);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "the example {name} does not build");
    folder().join("examples").join(name)
}

/// Removes the variables by which cargo describes a test's package. Build scripts of dependencies
/// would take them for a change, and half of the workspace would be rebuilt each time.
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

/// Python with the packages from PyPI that `tests/run` installs.
#[must_use]
pub fn python_with_packages() -> PathBuf {
    let programs = program("leafd");
    let target = programs.ancestors().nth(2).expect("the folder of the build");
    target.join("schemas/bin/python3")
}

/// A command that runs a program of this workspace, without the variables that configure leafd.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    without_settings(&mut command);
    command
}

/// Removes leafd's own variables from the environment of a command.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEAFD_")) {
        command.env_remove(name);
    }
}

/// The folder into which cargo puts programs.
pub(crate) fn folder() -> PathBuf {
    // …/target/debug/deps/name-hash for a test, …/target/debug/name for a program
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("no own path: {error}"));
    let folder = own.parent().unwrap_or_else(|| panic!("{} is in no folder", own.display()));
    match folder.parent() {
        Some(parent) if folder.ends_with("deps") => parent.to_owned(),
        _ => folder.to_owned(),
    }
}
