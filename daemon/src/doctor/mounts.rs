//! Reads `/proc/self/mountinfo`: which mount a path is in, and what kind of storage that is.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the state directory is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// A disk, as far as one can see.
    Disk,
    /// Memory: ends with the mount or the boot.
    Memory,
    /// The writable layer of a container: ends with the container.
    Overlay,
    /// Kubernetes's emptyDir: ends with the pod.
    EmptyDir,
    /// A file system on another host.
    Network,
    /// A part of a btrfs that a snapshot of the whole includes.
    Btrfs,
    Zfs,
    /// A logical volume.
    Lvm,
}

/// A mount, as far as the checks need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `MAJOR:MINOR` of the device.
    pub(crate) device: String,
    /// What is mounted: a folder of the file system.
    pub(crate) root: String,
    pub(crate) point: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// The mount that has `path`: the last one of those with the longest mount point.
pub(crate) fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(mount).filter(|mount| path.starts_with(&mount.point));
    mounts.max_by_key(|mount| mount.point.as_os_str().as_bytes().len())
}

/// `36 35 98:0 /root /point options [optional fields] - kind source options`
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let (device, root, point) = (before.next()?, before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, source) = (after.next()?, after.next()?);
    Some(Mount {
        device: device.to_owned(),
        root: plain(root),
        point: plain(point).into(),
        kind: kind.to_owned(),
        source: plain(source),
    })
}

/// The kernel writes blanks and the like as `\040`.
fn plain(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escaped, char)| text.replace(escaped, char))
}

/// What a directory on this mount is on. `is_subvolume`: whether the directory is the root of a btrfs
/// subvolume, which snapshots of the one around it leave out. `device_mapper`: the UUID of the
/// device, if it is one of the device mapper's.
pub(crate) fn storage(mount: &Mount, is_subvolume: bool, device_mapper: &str) -> StorageKind {
    match mount.kind.as_str() {
        _ if mount.root.contains("kubernetes.io~empty-dir") => StorageKind::EmptyDir,
        "tmpfs" | "ramfs" => StorageKind::Memory,
        "overlay" | "aufs" => StorageKind::Overlay,
        kind if kind.starts_with("nfs") => StorageKind::Network,
        "cifs" | "smb3" | "ceph" | "9p" | "fuse.glusterfs" | "fuse.sshfs" => StorageKind::Network,
        "btrfs" if !is_subvolume => StorageKind::Btrfs,
        "zfs" => StorageKind::Zfs,
        _ if device_mapper.starts_with("LVM-") => StorageKind::Lvm,
        _ => StorageKind::Disk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:5 / /dev rw - devtmpfs udev rw
30 21 0:40 / /var/lib rw shared:1 - tmpfs none rw
31 21 0:41 /@state /srv/my\\040data rw shared:2 master:3 - btrfs /dev/sdb rw
32 30 254:0 /kubelet/pods/1/volumes/kubernetes.io~empty-dir/state /var/lib/leafd rw - ext4 /dev/vda rw
33 21 0:42 / /srv/my\\040data rw - zfs tank/leaf rw
";

    #[test]
    fn a_path_is_in_the_last_mount_with_the_longest_mount_point() {
        for (path, kind, root) in [
            ("/home/x", "ext4", "/"),
            ("/var/lib/other", "tmpfs", "/"),
            ("/var/library", "ext4", "/"),
            ("/srv/my data/leafd", "zfs", "/"),
        ] {
            let mount = mount_of(MOUNTS, Path::new(path)).unwrap();
            assert_eq!((mount.kind.as_str(), mount.root.as_str()), (kind, root), "{path}");
        }
        assert_eq!(mount_of("", Path::new("/x")), None);
        assert_eq!(mount_of("nonsense\n1 2 3 - \n", Path::new("/x")), None);
    }

    #[test]
    fn storage_is_told_by_the_mount() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(storage(&of("/var/lib/leafd/x"), false, ""), StorageKind::EmptyDir);
        assert_eq!(storage(&of("/var/lib"), false, ""), StorageKind::Memory);
        assert_eq!(storage(&of("/home"), false, ""), StorageKind::Disk);
        assert_eq!(storage(&of("/home"), false, "LVM-abc"), StorageKind::Lvm);
        assert_eq!(storage(&of("/home"), false, "CRYPT-LUKS2-abc"), StorageKind::Disk);
        let kind = |kind: &str| Mount { kind: kind.to_owned(), ..Mount::default() };
        for (name, storage_kind) in [
            ("overlay", StorageKind::Overlay),
            ("nfs4", StorageKind::Network),
            ("btrfs", StorageKind::Btrfs),
            ("zfs", StorageKind::Zfs),
            ("xfs", StorageKind::Disk),
        ] {
            assert_eq!(storage(&kind(name), false, ""), storage_kind, "{name}");
        }
        assert_eq!(storage(&kind("btrfs"), true, ""), StorageKind::Disk);
    }
}
