//! One process per state directory. The lock ends with the last holder or with the process: the thread
//! that writes holds it too, so no successor begins while a write is under way.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::error::{StateError, io};
use crate::state::{database, worker_file};

/// Names the process that holds the lock, for an error message. The lock itself is on the directory,
/// because somebody could remove a file and make it again.
pub(super) const LOCK_FILE: &str = "lock";

pub(super) type DirLock = Arc<Flock<File>>;

/// Makes the directory if it is missing, and locks it.
pub(super) fn lock(path: &Path) -> Result<DirLock, StateError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io("make the state directory", path))?;
    let directory = File::open(path).map_err(io("open", path))?;
    let name = path.join(LOCK_FILE);
    let lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock);
    let lock = lock.map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => {
            let holder = std::fs::read_to_string(&name).unwrap_or_default();
            let holder = Some(holder.trim().to_owned()).filter(|pid| !pid.is_empty());
            StateError::Locked { path: path.to_owned(), holder }
        }
        errno => io("lock", path)(errno.into()),
    })?;
    std::fs::write(&name, format!("{}\n", std::process::id())).map_err(io("write", name))?;
    Ok(Arc::new(lock))
}

/// The file of what leafd has seen in the table of witnesses.
pub(super) const WITNESS_FILE: &str = "witness.properties";

/// The paths of the files, valid while the path leads to the locked directory. Holds the lock.
#[derive(Debug)]
pub(crate) struct StatePlace {
    pub(super) path: PathBuf,
    pub(super) lock: DirLock,
}

impl StatePlace {
    pub(crate) fn worker_file(&self) -> PathBuf {
        self.path.join(worker_file::FILE)
    }

    /// The path of another file of this name.
    pub(in crate::state) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The file that says which database the ranges come from.
    pub(crate) fn database_file(&self) -> PathBuf {
        self.path.join(database::FILE)
    }

    /// The file of what leafd has seen in the table of witnesses.
    pub(crate) fn witness_file(&self) -> PathBuf {
        self.path.join(WITNESS_FILE)
    }

    /// Checks that the path still leads to the locked directory.
    ///
    /// # Errors
    /// When the directory was removed or replaced: leafd must not write to what is there now.
    pub(crate) fn check(&self) -> io::Result<()> {
        let (ours, there) = (self.lock.metadata()?, std::fs::metadata(&self.path)?);
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            return Ok(());
        }
        let text = format!("{} was replaced while leafd ran; restart leafd", self.path.display());
        Err(io::Error::other(text))
    }
}
