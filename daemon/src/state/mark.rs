//! What tells a directory or file from a copy of it: the content can be copied, but not the inode number
//! and the birth time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// The inode number and birth time of a directory or file, which no copy has. They stay when it is
/// renamed or written to, and over a boot. The device number is not part of it, because a boot may change
/// that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    inode: u64,
    /// The birth time in ns since 1970, if the file system records it.
    made_ns: Option<u128>,
}

/// Whether a directory or file keeps its inode number for as long as it exists
/// (`state.unstable-inodes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inodes {
    /// Yes, as on any disk.
    Stable,
    /// No: the file system may change the number, as some stacked or user-space file systems do. Only
    /// the birth time tells a copy.
    Unstable,
}

impl FileMark {
    /// The mark of the directory or file with this metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let made = metadata.created().ok();
        let made_ns = made.and_then(|made| Some(made.duration_since(UNIX_EPOCH).ok()?.as_nanos()));
        Self { inode: metadata.ino(), made_ns }
    }

    /// The mark as text: `INODE@BIRTH`, or `INODE` alone.
    #[must_use]
    pub fn write(self) -> String {
        self.made_ns.map_or(self.inode.to_string(), |made_ns| format!("{}@{made_ns}", self.inode))
    }

    /// Reads what [`Self::write`] wrote; `None` if the text is something else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (inode, made) = text.split_once('@').map_or((text, None), |(i, m)| (i, Some(m)));
        let made_ns = made.map(str::parse).transpose().ok()?;
        Some(Self { inode: inode.parse().ok()?, made_ns })
    }

    /// Whether it certainly belongs to another directory or file.
    pub(crate) fn differs_from(self, other: Self) -> bool {
        self.inode != other.inode || self.was_made_at_another_time(other)
    }

    /// Like [`Self::differs_from`], but ignores inode numbers that are not stable.
    pub(crate) fn differs_by(self, other: Self, inodes: Inodes) -> bool {
        match inodes {
            Inodes::Stable => self.differs_from(other),
            Inodes::Unstable => self.was_made_at_another_time(other),
        }
    }

    fn was_made_at_another_time(self, other: Self) -> bool {
        self.made_ns.zip(other.made_ns).is_some_and(|(one, other)| one != other)
    }

    /// Whether the file system records birth times.
    pub(crate) const fn has_time(self) -> bool {
        self.made_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_written_and_read() {
        for made_ns in [None, Some(0), Some(u128::MAX)] {
            let mark = FileMark { inode: u64::MAX, made_ns };
            assert_eq!(FileMark::read(&mark.write()), Some(mark));
        }
        for text in ["", "@", "1@", "@1", "a", "1@a", "-1"] {
            assert_eq!(FileMark::read(text), None, "{text}");
        }
    }

    #[test]
    fn another_inode_or_birth_time_means_another_directory_and_an_unknown_time_means_nothing() {
        let mark = |inode, made_ns| FileMark { inode, made_ns };
        assert!(!mark(1, Some(2)).differs_from(mark(1, Some(2))));
        assert!(mark(1, Some(2)).differs_from(mark(1, Some(3))));
        assert!(mark(1, None).differs_from(mark(2, None)));
        assert!(!mark(1, None).differs_from(mark(1, Some(3))));
        // Where numbers change by themselves, only the time counts.
        assert!(!mark(1, Some(2)).differs_by(mark(2, Some(2)), Inodes::Unstable));
        assert!(!mark(1, None).differs_by(mark(2, None), Inodes::Unstable));
        assert!(mark(1, Some(2)).differs_by(mark(1, Some(3)), Inodes::Unstable));
        assert!(mark(1, Some(2)).differs_by(mark(2, Some(2)), Inodes::Stable));
    }

    #[test]
    fn a_directory_keeps_its_mark_when_it_is_renamed_and_a_copy_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, copy] =
            ["first", "second", "copy"].map(|name| folder.path().join(name));
        let mark = |path| FileMark::of(&std::fs::metadata(path).unwrap());
        std::fs::create_dir(&first).unwrap();
        let before = mark(&first);
        std::fs::write(first.join("file"), "1").unwrap();
        std::fs::rename(&first, &second).unwrap();
        assert!(!mark(&second).differs_from(before));
        let status = std::process::Command::new("cp").arg("-a").args([&second, &copy]).status();
        assert!(status.unwrap().success());
        assert!(mark(&copy).differs_from(before));
    }
}
