//! Reading a key file, which nobody but its owner and its group may read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::{KeyFileError, KeyRing};

/// The largest key file in bytes. 32 keys take 2,144.
const MAX_BYTES: usize = 64 * 1024;

/// Permissions that no key file has: to write for the group, to read or write for everybody. The group
/// may read, as it may read the credentials that systemd passes.
const FORBIDDEN: u32 = 0o026;

impl KeyRing {
    /// Reads a key file.
    ///
    /// # Errors
    /// If the file cannot be read, if others than its owner and its group can read it or others than its
    /// owner can write it, or if its text is wrong.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |source| KeyFileError::Read { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(KeyFileError::NotAFile { path: path.to_owned() });
        }
        let mode = metadata.mode() & 0o7777;
        if mode & FORBIDDEN != 0 {
            return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
        }
        // Large enough at once: a buffer that grows leaves copies of the keys behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 1));
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_BYTES {
            return Err(KeyFileError::TooLarge { path: path.to_owned(), limit: MAX_BYTES });
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| KeyFileError::NotText { path: path.to_owned() })?;
        Self::parse(text).map_err(|source| KeyFileError::Text { path: path.to_owned(), source })
    }
}

/// Opens without waiting for a writer, should the path lead to a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}
