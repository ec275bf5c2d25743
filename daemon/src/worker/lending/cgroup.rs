//! The cgroup of a borrower, which says whether any of its processes is left, whatever became of the
//! borrower.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the kernel's cgroups are mounted: version 2 alone, or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A directory of cgroup version 2 that leafd sees as the borrower does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cgroup {
    mount: PathBuf,
    directory: PathBuf,
    inode: u64,
}

impl Cgroup {
    /// The cgroup at `path`, as in `/proc/PID/cgroup`. `None` if leafd does not see it there with that
    /// inode number, as from another container; if it is the root; or if it has no process yet, so that
    /// emptiness would say nothing.
    pub(crate) fn find(path: &str, inode: u64) -> Option<Self> {
        MOUNTS.iter().find_map(|mount| Self::below(Path::new(mount), path, inode))
    }

    fn below(mount: &Path, path: &str, inode: u64) -> Option<Self> {
        let relative = path.strip_prefix('/').filter(|relative| !relative.is_empty())?;
        if relative.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return None;
        }
        let (directory, mount) = (mount.join(relative), mount.to_owned());
        let cgroup = Self { mount, directory, inode };
        (cgroup.is_there() && cgroup.is_populated()).then_some(cgroup)
    }

    /// Whether no process is left in it or below it. A cgroup that is gone had none.
    pub(crate) fn is_empty(&self) -> bool {
        if self.is_there() { !self.is_populated() } else { self.is_mounted() }
    }

    /// Whether there are cgroups at all. If leafd sees none any more, absence says nothing.
    fn is_mounted(&self) -> bool {
        self.mount.join("cgroup.controllers").exists()
    }

    fn is_there(&self) -> bool {
        let found = std::fs::symlink_metadata(&self.directory);
        found.is_ok_and(|found| found.is_dir() && found.ino() == self.inode)
    }

    /// `true` also if it cannot be read while it is there.
    fn is_populated(&self) -> bool {
        let Ok(events) = std::fs::read_to_string(self.directory.join("cgroup.events")) else {
            return self.is_there();
        };
        events.lines().any(|line| line == "populated 1")
    }
}

#[cfg(test)]
impl Cgroup {
    /// One that differs from others by its number alone.
    pub(super) fn of_test(number: u64) -> Self {
        Self { mount: PathBuf::new(), directory: PathBuf::new(), inode: number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a mounted hierarchy with one cgroup.
    fn hierarchy(populated: &str) -> (tempfile::TempDir, u64) {
        let mount = tempfile::tempdir().unwrap();
        let directory = mount.path().join("a/b");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(mount.path().join("cgroup.controllers"), "").unwrap();
        std::fs::write(directory.join("cgroup.events"), populated).unwrap();
        let inode = std::fs::metadata(&directory).unwrap().ino();
        (mount, inode)
    }

    #[test]
    fn a_cgroup_is_empty_when_no_process_is_left_or_when_it_is_gone() {
        let (mount, inode) = hierarchy("populated 1\nfrozen 0\n");
        let cgroup = Cgroup::below(mount.path(), "/a/b", inode).unwrap();
        assert!(!cgroup.is_empty());
        let events = mount.path().join("a/b/cgroup.events");
        std::fs::write(&events, "populated 0\nfrozen 0\n").unwrap();
        assert!(cgroup.is_empty());
        std::fs::remove_file(&events).unwrap();
        assert!(!cgroup.is_empty(), "it cannot be read");
        std::fs::remove_dir_all(mount.path().join("a")).unwrap();
        assert!(cgroup.is_empty());
        std::fs::create_dir_all(mount.path().join("a/b")).unwrap();
        std::fs::remove_file(mount.path().join("cgroup.controllers")).unwrap();
        std::fs::remove_dir_all(mount.path().join("a")).unwrap();
        assert!(!cgroup.is_empty(), "leafd sees no cgroups any more");
    }

    #[test]
    fn what_leafd_does_not_see_as_the_borrower_does_is_none() {
        let (mount, inode) = hierarchy("populated 1\n");
        for path in ["", "/", "a/b", "/a/../a/b", "/a//b", "/a/c", "/./a/b"] {
            assert_eq!(Cgroup::below(mount.path(), path, inode), None, "{path}");
        }
        assert_eq!(Cgroup::below(mount.path(), "/a/b", inode + 1), None);
        let (mount, inode) = hierarchy("populated 0\n");
        assert_eq!(Cgroup::below(mount.path(), "/a/b", inode), None, "it has no process yet");
    }
}
