//! The state directory: one process locks it, makes it once, and distrusts it when it opens it again.
//! leafd sets damaged or foreign files aside; it never trusts them and never takes such a directory for
//! new.

mod contents;
mod copies;
mod error;
mod lock;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::contents::foreign_worker;
use self::error::io;
use self::lock::DirLock;
use super::database::{self, RecordedDatabase};
use super::durable::{self, keep_aside, set_aside};
use super::journal::{self, JournalReading};
use super::mark::{FileMark, Inodes};
use super::owner::{self, OwnerFile, StateOwner};
use super::properties::Properties;
use super::worker_file::{self, WorkerRecord};

use crate::environment::Environment;

pub(crate) use contents::StateContents;
pub use contents::WorkerPast;
pub(super) use contents::{NextFiles, floors_only};
pub(super) use copies::MarkedFile;
pub(crate) use error::StateError;
pub(crate) use lock::StatePlace;

/// What to do with another host's state, and with a copy of this host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignPolicy {
    /// Refuse to start: the store is inside the directory, so nobody else would notice a repeated
    /// lease.
    Refuse,
    /// Set it aside: the ranges come from a shared store, which knows the other host.
    SetAside {
        /// The worker ID, if the configuration fixes it. If the directory was issuing with the same
        /// one, nothing keeps the two hosts apart, so there are no snowflake IDs.
        fixed_worker: Option<u64>,
    },
}

/// A locked state directory.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    lock: DirLock,
    inodes: Inodes,
    environment: Environment,
}

impl StateDir {
    /// Makes the directory if it is missing, and locks it.
    ///
    /// # Errors
    /// When another process holds the lock, or the operating system refuses.
    pub(crate) fn lock(path: &Path, environment: &Environment) -> Result<Self, StateError> {
        let (lock, environment) = (lock::lock(path)?, environment.clone());
        Ok(Self { path: path.to_owned(), lock, inodes: Inodes::Stable, environment })
    }

    /// Whether inode numbers tell a copy from the original.
    #[must_use]
    pub(crate) const fn with_inodes(mut self, inodes: Inodes) -> Self {
        self.inodes = inodes;
        self
    }

    /// Whether the file system records the directory's birth time.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn has_time(&self) -> Result<bool, StateError> {
        Ok(self.mark()?.has_time())
    }

    /// The paths for the thread that writes. The directory stays locked while they exist.
    #[must_use]
    pub(crate) fn place(&self) -> StatePlace {
        StatePlace { path: self.path.clone(), lock: Arc::clone(&self.lock) }
    }

    pub(crate) const fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn mark(&self) -> Result<FileMark, StateError> {
        let metadata = self.lock.metadata().map_err(self.io("look at", ""))?;
        Ok(FileMark::of(&metadata))
    }

    pub(super) fn io(
        &self,
        action: &'static str,
        file: &str,
    ) -> impl FnOnce(io::Error) -> StateError {
        io(action, self.path.join(file))
    }

    /// Reads the files, and makes those that a new directory lacks.
    ///
    /// # Errors
    /// When the directory is another host's or a copy and `policy` refuses it, or the operating system
    /// refuses.
    pub(crate) fn open(
        &self,
        here: &StateOwner,
        policy: ForeignPolicy,
    ) -> Result<StateContents, StateError> {
        let mut files = NextFiles::new();
        if self.is_new()? {
            durable::sync_names(&self.path).map_err(self.io("sync the names above", ""))?;
            return self.make(here, files);
        }
        let difference = match self.owner(here)? {
            Ok(owner) => {
                let journal = self.read_marked(journal::FILE)?;
                let copied = self.copied(Some(&owner), journal.as_ref())?;
                if let (Some(what), ForeignPolicy::Refuse) = (&copied, policy) {
                    return Err(self.refuse_copy(what, journal.as_ref()));
                }
                let OwnerFile { generation, ends_are_known, base, .. } = owner.content;
                files.generation = generation;
                files.base = base;
                files.journal_is_whole = ends_are_known && copied.is_none();
                self.read_worker(&mut files, copied.as_ref())?;
                self.read_journal(&mut files, journal)?;
                if let Some(elsewhere) = owner.content.owner.leased_elsewhere(here) {
                    files.drop_ranges_because(&format!("its ranges were leased from {elsewhere}"));
                } else if let Some(what) = copied {
                    files.drop_ranges_because(&format!("it was restored or copied: {what}"));
                } else if owner.content.file.is_none() {
                    files.drop_unmarked_ranges();
                }
                return self.make(here, files);
            }
            Err(difference) => difference,
        };
        let ForeignPolicy::SetAside { fixed_worker } = policy else {
            return Err(StateError::Foreign { path: self.path.clone(), difference });
        };
        files.warnings.push(format!("the state directory is another host's: {difference}"));
        // An embedded database that may lie in the directory is the other host's too.
        files.journal_is_whole = false;
        if self.may_have_issued_as(fixed_worker)? {
            files.worker = WorkerPast::Lost { reason: foreign_worker() };
        }
        for file in [journal::FILE, worker_file::FILE, owner::FILE] {
            let aside = self.put_aside(file, "foreign")?;
            files.warnings.extend(aside);
        }
        self.make(here, files)
    }

    /// What is recorded of the database at `place`. `None`: the file is damaged, so nobody knows where
    /// the ranges come from.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn database(&self, place: &str) -> Result<Option<RecordedDatabase>, StateError> {
        let Some(content) = self.read(database::FILE)? else {
            return Ok(Some(RecordedDatabase::default()));
        };
        Ok(database::read(&content, place).ok())
    }

    /// Forgets which database the ranges came from, after they were dropped.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn forget_database(&self) -> Result<(), StateError> {
        let path = self.path.join(database::FILE);
        durable::remove(&path).map_err(self.io("remove", database::FILE))
    }

    /// The content of the file in which leafd keeps what it has seen in the table of witnesses. `None` also if
    /// it is a copy of the file that leafd wrote.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn witness(&self) -> Result<Option<Vec<u8>>, StateError> {
        let file = self.read_marked(lock::WITNESS_FILE)?;
        Ok(file.and_then(|MarkedFile { content, mark }| {
            let written = Properties::read(&content).ok().and_then(|content| content.file());
            let is_copy = written.is_some_and(|written| written.differs_by(mark, self.inodes));
            (!is_copy).then_some(content)
        }))
    }

    /// Whether the worker file has this worker ID, or may have it.
    fn may_have_issued_as(&self, worker: Option<u64>) -> Result<bool, StateError> {
        let (Some(worker), Some(text)) = (worker, self.read(worker_file::FILE)?) else {
            return Ok(worker.is_some());
        };
        let record = WorkerRecord::read(&text).ok();
        let was = record.map_or(Some(worker), |(record, _)| record.worker);
        Ok(was == Some(worker))
    }

    /// Whether nothing was ever issued from here: there are no files, or a crash came while they were
    /// made, before the owner file, which is the last.
    pub(super) fn is_new(&self) -> Result<bool, StateError> {
        if self.read(owner::FILE)?.is_some() {
            return Ok(false);
        }
        let no_tags = self.read(journal::FILE)?.is_none_or(|content| {
            matches!(journal::read(&content),
                JournalReading::Whole { tags, header, retired, .. }
                    if tags.is_empty() && retired.is_empty() && header.base == 0)
        });
        let no_worker = self.read(worker_file::FILE)?.is_none_or(|content| {
            WorkerRecord::read(&content).is_ok_and(|(record, _)| record == WorkerRecord::fresh())
        });
        Ok(no_tags && no_worker && !self.has_put_aside()?)
    }

    /// Whether files were set aside here. Then a missing file does not mean a new directory.
    fn has_put_aside(&self) -> Result<bool, StateError> {
        for why in ["damaged", "foreign", "adopted"] {
            if self.has_aside("", why)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a file was set aside for this reason. An empty name stands for any file.
    fn has_aside(&self, file: &str, why: &str) -> Result<bool, StateError> {
        let mark = format!(".{why}-");
        for entry in std::fs::read_dir(&self.path).map_err(io("list", self.path.clone()))? {
            let name = entry.map_err(io("list", self.path.clone()))?.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(file) && name.contains(&mark) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the owner file says if the directory is this host's; else how it differs.
    fn owner(
        &self,
        here: &StateOwner,
    ) -> Result<Result<MarkedFile<OwnerFile>, String>, StateError> {
        let Some(MarkedFile { content, mark }) = self.read_marked(owner::FILE)? else {
            return Ok(Err(format!("{} is missing", owner::FILE)));
        };
        Ok(match OwnerFile::read(&content) {
            Ok(file) => match file.owner.differs_from(here) {
                Some(difference) => Err(difference),
                None => Ok(MarkedFile { content: file, mark }),
            },
            Err(damage) => Err(format!("{} is damaged: {damage}", owner::FILE)),
        })
    }

    fn put_aside(&self, file: &str, why: &str) -> Result<Option<String>, StateError> {
        if self.read(file)?.is_none() {
            return Ok(None);
        }
        let target = set_aside(&self.path.join(file), why, self.environment.unix_ms())
            .map_err(self.io("set aside", file))?;
        Ok(Some(format!("{file} is set aside as {}", target.display())))
    }

    pub(super) fn keep_copy(&self, file: &str, why: &str) -> Result<Option<String>, StateError> {
        if self.read(file)?.is_none() {
            return Ok(None);
        }
        let target = keep_aside(&self.path.join(file), why, self.environment.unix_ms())
            .map_err(self.io("set aside", file))?;
        Ok(Some(format!("the old {file} is kept as {}", target.display())))
    }

    pub(super) fn read(&self, file: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.read_marked(file)?.map(|file| file.content))
    }

    pub(super) fn read_marked(
        &self,
        file: &str,
    ) -> Result<Option<MarkedFile<Vec<u8>>>, StateError> {
        let read = || -> io::Result<_> {
            let mut file = File::open(self.path.join(file))?;
            let mark = FileMark::of(&file.metadata()?);
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            Ok(MarkedFile { content, mark })
        };
        match read() {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("read", file)(error)),
        }
    }
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
