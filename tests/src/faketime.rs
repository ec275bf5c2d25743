//! A clock of the test's own for a daemon: libfaketime under the real program, told by a file
//! that is read at every look at the clock. It is faithful where it matters here: the daemon sees
//! steps of CLOCK_REALTIME in the middle of its work, while its monotonic clock goes on, which is
//! what `settimeofday` does to a process.

use std::path::{Path, PathBuf};

/// Where Debian's package `faketime` has the library, below a folder named for the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The library.
///
/// # Panics
/// When it is not installed.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("/usr/lib").flatten();
    let mut libraries = folders.map(|folder| folder.path().join(LIBRARY));
    libraries.find(|path| path.exists()).expect("install Debian's package faketime")
}

/// A clock that can be stepped.
#[derive(Debug, Clone)]
pub struct FakeTime {
    file: PathBuf,
    library: PathBuf,
}

impl FakeTime {
    /// A clock that is right at first.
    ///
    /// # Panics
    /// When the library is not installed.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let clock = Self { file: folder.join("clock"), library: library() };
        clock.set_offset_ms(0);
        clock
    }

    /// Steps the clock to so many milliseconds after (or before) the right time.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set_offset_ms(&self, offset_ms: i64) {
        let sign = if offset_ms < 0 { '-' } else { '+' };
        let ms = offset_ms.unsigned_abs();
        let text = format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000);
        // Replaced as a whole: the daemon must never read half of it.
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
