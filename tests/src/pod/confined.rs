//! What a process in a container may do, according to the kernel. It is read from outside, since the
//! image has no programs for that.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A process in a container.
#[derive(Debug, Clone, Copy)]
pub struct ContainerProcess {
    pid: u32,
}

impl ContainerProcess {
    pub(super) fn of(pid: u64) -> Self {
        Self { pid: u32::try_from(pid).expect("a process ID") }
    }

    /// Its process ID on this host.
    #[must_use]
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// A field of `/proc/PID/status`, with single spaces between its words.
    #[must_use]
    pub fn status(self, field: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        let words: Vec<_> = line.expect("the field").split_whitespace().collect();
        words.join(" ")
    }

    /// Where this host finds a path of the container.
    #[must_use]
    pub fn path(self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// Why nobody, not even root of this host, can create a file in a folder of the container; none
    /// if that works.
    #[must_use]
    pub fn refuses_to_write(self, folder: &str) -> Option<io::ErrorKind> {
        let file = self.path(folder).join("probe");
        let refused = fs::write(&file, "").err()?;
        Some(refused.kind())
    }

    /// The names in a folder of the container.
    #[must_use]
    pub fn names_in(self, folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(folder)).expect("the folder");
        entries
            .map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned())
            .collect()
    }
}
