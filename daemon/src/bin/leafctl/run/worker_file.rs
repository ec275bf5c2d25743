//! The file that tells the command its worker ID.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The file, while it is leafctl's. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct WorkerFile {
    path: PathBuf,
    /// Open, so that no other file can get its inode.
    file: Option<File>,
    /// Locked while the path is this leafctl's.
    lock: Option<(PathBuf, File)>,
}

impl WorkerFile {
    /// Writes `worker` to the file `path`, at once for whoever reads it. `unique` is a part of the
    /// name of the temporary file.
    ///
    /// # Errors
    /// When a file in this directory cannot be written.
    pub(super) fn write(path: &Path, worker: u64, unique: &str) -> io::Result<Self> {
        let mut name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        name.push(format!(".{unique}"));
        let temporary = path.with_file_name(name);
        let mut this = Self { path: path.to_owned(), file: None, lock: lock(path)? };
        let written = Self::write_temporary(&temporary, worker)
            .and_then(|file| fs::rename(&temporary, path).map(|()| file));
        this.file = Some(written.inspect_err(|_| drop(fs::remove_file(&temporary)))?);
        Ok(this)
    }

    fn write_temporary(path: &Path, worker: u64) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        // The umask may have taken the other users' permission away.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(format!("{worker}\n").as_bytes())?;
        Ok(file)
    }

    fn is_own(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let (own, there) = (file.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok((own.dev(), own.ino()) == (there.dev(), there.ino()))
    }
}

/// Locks a file beside `path`, which only this user can open: two commands would read one worker ID.
fn lock(path: &Path) -> io::Result<Option<(PathBuf, File)>> {
    let mut name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
    name.push(".lock");
    let beside = path.with_file_name(name);
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let there = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(&beside)?;
        match there.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another leafctl run has its worker ID there; give each its own file";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            // This file system has no locks.
            Err(TryLockError::Error(_)) => {
                let _ = fs::remove_file(&beside);
                return Ok(None);
            }
        }
        let (own, now) = (there.metadata()?, fs::symlink_metadata(&beside));
        // Else its last owner has just removed it.
        if now.is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino())) {
            return Ok(Some((beside, there)));
        }
    }
}

impl Drop for WorkerFile {
    fn drop(&mut self) {
        if self.is_own().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some((path, _locked)) = self.lock.take() {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_number_and_a_newline_and_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        let file = WorkerFile::write(&path, 513, "x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "513\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_replaced_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        fs::write(&path, "an older one").unwrap();
        let first = WorkerFile::write(&path, 1, "x").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "2\n").unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
        drop(WorkerFile::write(&path, 3, "y").unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_another_one_uses_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        let first = WorkerFile::write(&path, 1, "x").unwrap();
        let error = WorkerFile::write(&path, 2, "y").unwrap_err().to_string();
        assert!(error.contains("another leafctl run"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // What a killed one has left is replaced.
        fs::write(&path, "1\n").unwrap();
        drop(WorkerFile::write(&path, 3, "z").unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WorkerFile::write(&folder.path().join("no/worker"), 1, "x").is_err());
        assert!(WorkerFile::write(Path::new("/"), 1, "x").is_err());
        // A directory cannot be replaced.
        let path = folder.path().join("worker");
        fs::create_dir(&path).unwrap();
        assert!(WorkerFile::write(&path, 1, "x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
