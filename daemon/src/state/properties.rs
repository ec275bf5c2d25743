//! Small files of `key=value` lines that end in a checksum. People and Java's `Properties` can read them,
//! and a single flipped bit shows.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::mark::FileMark;

/// The key under which a file records its own mark.
pub const FILE_MARK: &str = "file";

/// Why a file's content cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The last line is not a checksum.
    #[error("it does not end in a checksum")]
    NoChecksum,
    /// The checksum does not match the content.
    #[error("its checksum is {found} instead of {expected}")]
    Checksum {
        /// The checksum in the file.
        found: String,
        /// The checksum of the content.
        expected: String,
    },
    /// The checksum is right, but a line or a value is wrong.
    #[error("{0}")]
    Content(String),
}

/// The keys and values of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Sets a value. Line breaks in it become spaces; the key must have none.
    pub fn set(&mut self, key: &str, value: impl ToString) {
        let value = value.to_string().replace(['\n', '\r'], " ");
        self.0.insert(key.to_owned(), value);
    }

    /// A value as text.
    ///
    /// # Errors
    /// When the key is missing.
    pub fn get(&self, key: &str) -> Result<&str, Damage> {
        let missing = || Damage::Content(format!("{key} is missing"));
        self.0.get(key).map(String::as_str).ok_or_else(missing)
    }

    /// A value as a number.
    ///
    /// # Errors
    /// When the key is missing or its value is not a number.
    pub fn number(&self, key: &str) -> Result<u64, Damage> {
        let text = self.get(key)?;
        text.parse().map_err(|_| Damage::Content(format!("{key} is {text:?}, not a number")))
    }

    /// The values whose keys begin with `prefix`, with the rest of the key.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let rest = move |(key, value): (&'a String, &'a String)| {
            Some((key.strip_prefix(prefix)?, value.as_str()))
        };
        self.0.iter().filter_map(rest)
    }

    /// The mark of the file that the content was written to, if it says so.
    pub(super) fn file(&self) -> Option<FileMark> {
        self.get(FILE_MARK).ok().and_then(FileMark::read)
    }

    /// The file's content: a comment, the lines, the checksum.
    #[must_use]
    pub fn write(&self, comment: &str) -> String {
        let mut text = format!("# {comment}\n");
        for (key, value) in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key}={value}");
        }
        let sum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "checksum={sum:08x}");
        text
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// When the checksum is missing or wrong, or a line is not `key=value`.
    pub fn read(content: &[u8]) -> Result<Self, Damage> {
        let text =
            std::str::from_utf8(content).map_err(|_| Damage::Content("it is not UTF-8".into()))?;
        let body_end = text.strip_suffix('\n').and_then(|text| text.rfind('\n'));
        let body_end = body_end.ok_or(Damage::NoChecksum)? + 1;
        let (body, last) = text.split_at_checked(body_end).ok_or(Damage::NoChecksum)?;
        let found = last.trim_end().strip_prefix("checksum=").ok_or(Damage::NoChecksum)?;
        let expected = format!("{:08x}", crc32fast::hash(body.as_bytes()));
        if found != expected {
            return Err(Damage::Checksum { found: found.to_owned(), expected });
        }
        let mut properties = Self::default();
        for line in body.lines().filter(|line| !line.starts_with('#')) {
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| Damage::Content(format!("{line:?} is not key=value")))?;
            properties.set(key, value);
        }
        Ok(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut properties = Properties::default();
        properties.set("workerID", 7);
        properties.set("identity", "a=b\nc");
        let text = properties.write("leafd");
        assert!(text.contains("\nworkerID=7\n"), "as Java Leaf writes it: {text}");
        let read = Properties::read(text.as_bytes()).unwrap();
        assert_eq!(read.number("workerID"), Ok(7));
        assert_eq!(read.get("identity"), Ok("a=b c"));
        assert!(read.number("identity").is_err() && read.get("other").is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let mut properties = Properties::default();
        properties.set("workerID", 7);
        properties.set("ceiling", 1_700_000_000_000u64);
        let good = properties.write("leafd").into_bytes();
        for at in 0..good.len() {
            assert!(Properties::read(&good[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Properties::read(&bad).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
