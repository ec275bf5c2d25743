//! By what a directory or file is told from a copy of it: all that is in it can be copied, but not
//! when and where it was made.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// What no copy of a directory or file has. It stays when either is renamed or written to, and over
/// a boot, which may give file systems other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    inode: u64,
    /// When it was made (ns since 1970), where the file system knows.
    made_ns: Option<u128>,
}

/// Whether a directory or file keeps its inode number for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inodes {
    /// As on any disk.
    Stable,
    /// The file system may number anew, as some that are stacked or in user space do
    /// (`state.unstable-inodes`): only the time tells a copy.
    Unstable,
}

impl FileMark {
    /// That of a directory or file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let made = metadata.created().ok();
        let made_ns = made.and_then(|made| Some(made.duration_since(UNIX_EPOCH).ok()?.as_nanos()));
        Self { inode: metadata.ino(), made_ns }
    }

    /// As text.
    #[must_use]
    pub fn write(self) -> String {
        self.made_ns.map_or(self.inode.to_string(), |made_ns| format!("{}@{made_ns}", self.inode))
    }

    /// Reads it; `None` when it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (inode, made) = text.split_once('@').map_or((text, None), |(i, m)| (i, Some(m)));
        let made_ns = made.map(str::parse).transpose().ok()?;
        Some(Self { inode: inode.parse().ok()?, made_ns })
    }

    /// Whether it is surely another directory's or file's.
    #[must_use]
    pub fn differs_from(self, other: Self) -> bool {
        self.inode != other.inode || self.was_made_at_another_time(other)
    }

    /// The same, as far as `inodes` can be relied on.
    #[must_use]
    pub fn differs_by(self, other: Self, inodes: Inodes) -> bool {
        match inodes {
            Inodes::Stable => self.differs_from(other),
            Inodes::Unstable => self.was_made_at_another_time(other),
        }
    }

    fn was_made_at_another_time(self, other: Self) -> bool {
        self.made_ns.zip(other.made_ns).is_some_and(|(one, other)| one != other)
    }

    /// Whether the file system knows when it was made.
    #[must_use]
    pub const fn has_time(self) -> bool {
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
    fn another_inode_or_another_time_is_another_directory_and_an_unknown_time_is_none() {
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
