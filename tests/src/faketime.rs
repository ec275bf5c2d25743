//! A clock for a daemon that the test controls. libfaketime is preloaded into the real program and
//! reads the offset from a file at every look at the clock. The daemon sees what it sees after
//! `settimeofday`: CLOCK_REALTIME steps while the daemon works, and the monotonic clock goes on.

use std::path::{Path, PathBuf};

/// Path of the library of Debian's package `faketime`, below a folder named after the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("/usr/lib").flatten();
    let mut libraries = folders.map(|folder| folder.path().join(LIBRARY));
    libraries.find(|path| path.exists()).expect("install Debian's package faketime")
}

/// A clock that can be stepped. It needs Debian's package `faketime`.
#[derive(Debug, Clone)]
pub struct FakeTime {
    file: PathBuf,
    library: PathBuf,
}

impl FakeTime {
    /// A clock that shows the right time at first.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let clock = Self { file: folder.join("clock"), library: library() };
        clock.set_offset_ms(0);
        clock
    }

    /// Steps the clock to `offset_ms` after the right time, or before it if negative.
    pub fn set_offset_ms(&self, offset_ms: i64) {
        let sign = if offset_ms < 0 { '-' } else { '+' };
        let ms = offset_ms.unsigned_abs();
        let text = format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000);
        // A rename replaces the file at once, so that the daemon never reads half of it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, text).expect("the clock's file");
        std::fs::rename(&new, &self.file).expect("the clock's file");
    }

    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let file = self.file.display().to_string();
        let library = self.library.display().to_string();
        [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}
