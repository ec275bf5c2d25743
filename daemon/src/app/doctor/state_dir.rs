//! The state directory: whose it is, what it is on, and how much room is left.

use std::fs::{metadata, read_dir, read_to_string};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::unseen;
use crate::doctor::facts::{DiskFacts, Seen, StateFacts};
use crate::doctor::mounts::{Mount, mount_of, storage};

/// The inode number of the root of every btrfs subvolume.
const SUBVOLUME: u64 = 256;

/// How many files are looked at.
const MOST_FILES: usize = 1000;

pub(super) fn look(path: &Path) -> Seen<StateFacts> {
    let seen = || {
        let path = path.canonicalize()?;
        let found = metadata(&path)?;
        let disk = statvfs(&path)?;
        let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mount_of(&mounts, &path).unwrap_or_default();
        let size = disk.fragment_size();
        Ok(StateFacts {
            uid: found.uid(),
            mode: found.mode(),
            storage: storage(&mount, found.ino() == SUBVOLUME, &device_mapper(&mount)),
            mount,
            disk: DiskFacts {
                free_bytes: size.saturating_mul(disk.blocks_available()),
                total_bytes: size.saturating_mul(disk.blocks()),
                free_inodes: disk.files_available(),
                total_inodes: disk.files(),
                read_only: disk.flags().contains(FsFlags::ST_RDONLY),
            },
            strangers: strangers(&path, found.uid()),
            path,
        })
    };
    match seen() {
        Ok(facts) => Seen::As(facts),
        Err(error) => unseen(path, &error),
    }
}

/// The names of files that do not belong to `uid`; none if the directory cannot be listed.
fn strangers(path: &Path, uid: u32) -> Option<Vec<String>> {
    let files = read_dir(path).ok()?.take(MOST_FILES).flatten();
    let others = files.filter(|file| file.metadata().is_ok_and(|found| found.uid() != uid));
    Some(others.map(|file| file.file_name().to_string_lossy().into_owned()).collect())
}

/// The UUID of the mount's device, if the device mapper made it; else empty.
fn device_mapper(mount: &Mount) -> String {
    read_to_string(format!("/sys/dev/block/{}/dm/uuid", mount.device)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::mounts::StorageKind;

    #[test]
    fn a_directory_in_memory_is_seen_as_such() {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let Seen::As(facts) = look(dir.path()) else { panic!() };
        assert_eq!(facts.storage, StorageKind::Memory);
        assert_eq!(facts.strangers, Some(vec![]));
        assert!(facts.disk.total_bytes > 0);
        assert_eq!(look(&dir.path().join("none")), Seen::Nothing);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(look(&dir.path().join("file/x")), Seen::Not(_)));
    }
}
