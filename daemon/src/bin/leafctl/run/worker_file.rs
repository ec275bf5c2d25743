//! The file that tells the command its worker ID.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file, while it is leafctl's. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct WorkerFile {
    path: PathBuf,
    /// Open, so that no other file can get its inode.
    file: File,
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
        let written = Self::write_temporary(&temporary, worker)
            .and_then(|file| fs::rename(&temporary, path).map(|()| file));
        let file = written.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn write_temporary(path: &Path, worker: u64) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        // The umask may have taken the other users' permission away.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(format!("{worker}\n").as_bytes())?;
        Ok(file)
    }

    fn is_own(&self) -> io::Result<bool> {
        let (own, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok((own.dev(), own.ino()) == (there.dev(), there.ino()))
    }
}

impl Drop for WorkerFile {
    fn drop(&mut self) {
        if self.is_own().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
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
        let second = WorkerFile::write(&path, 2, "y").unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
        drop(second);
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
