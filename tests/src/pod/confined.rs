//! What a process may do, as the kernel sees it: read from outside, since nothing within the
//! container could.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A process in a container.
#[derive(Debug, Clone, Copy)]
pub struct Confined {
    pid: u32,
}

impl Confined {
    pub(super) fn of(pid: u64) -> Self {
        Self { pid: u32::try_from(pid).expect("a process ID") }
    }

    /// Its process ID, here.
    #[must_use]
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// A field of its status, with its words one space apart.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn status(self, field: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        let words: Vec<_> = line.expect("the field").split_whitespace().collect();
        words.join(" ")
    }

    /// A path as it sees it.
    #[must_use]
    pub fn path(self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// Why nobody can make a file in a folder there, root of this machine included; none when one
    /// can be made.
    #[must_use]
    pub fn refuses_to_write(self, folder: &str) -> Option<io::ErrorKind> {
        let file = self.path(folder).join("probe");
        let refused = fs::write(&file, "").err()?;
        Some(refused.kind())
    }

    /// The names in a folder there.
    ///
    /// # Panics
    /// When there is no such folder.
    #[must_use]
    pub fn names_in(self, folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(folder)).expect("the folder");
        entries
            .map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned())
            .collect()
    }
}
