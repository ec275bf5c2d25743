//! Files that take long to make, such as a Debian root or a new database: made once, and kept in
//! cargo's target folder for later test processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries;

/// The folder for such files.
pub(crate) fn folder() -> PathBuf {
    let folder = binaries::folder().join("leafd-tests");
    std::fs::create_dir_all(&folder).expect("a folder in the target folder");
    folder
}

/// Takes a lock of the folder, so that of several test processes only one makes a file.
pub(crate) fn lock(name: &str) -> File {
    let lock = File::create(folder().join(name).with_extension("lock")).expect("a lock");
    lock.lock().expect("the lock");
    lock
}

/// The path of `name` in the folder. If it is missing, `make` makes it at the path that it is given.
pub(crate) fn made_once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let path = folder().join(name);
    let _lock = lock(name);
    if !path.exists() {
        let new = path.with_extension("new");
        if new.is_dir() {
            // Another test process was killed while it made this.
            std::fs::remove_dir_all(&new).expect("room for a new one");
        }
        make(&new);
        std::fs::rename(&new, &path).expect("a rename");
    }
    path
}

/// Runs a command that succeeds, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
