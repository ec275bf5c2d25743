//! The state directory: locked by one process, made once, and looked at with suspicion when it is
//! opened again. What is damaged or another host's is set aside, never trusted, and never taken
//! for new.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::durable::{keep_aside, replace, set_aside};
use super::journal::{self, Journal, Opened};
use super::owner::{self, Owner};
use super::worker_file::{self, WorkerRecord};
use crate::segment::range::Queue;
use crate::segment::tag::BizTag;

const LOCK: &str = "lock";

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process has it.
    #[error(
        "the state directory {path} is locked by another leafd{}; stop that one, or give this one \
         a directory of its own with state.dir",
        holder.as_ref().map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that says it holds the lock.
        holder: Option<String>,
    },
    /// It belongs to another host, and what is configured could repeat that host's IDs.
    #[error(
        "the state directory {path} is not this host's: {difference}. Two hosts that go on from \
         one state repeat each other's IDs. If the other one never runs again (the disk was moved, \
         the machine was renamed), take the directory over with `leafd adopt`; if this is a copy, \
         give this host a directory of its own with state.dir"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// In what it differs.
        difference: String,
    },
    /// The operating system says no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

/// What to do with another host's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignPolicy {
    /// Refuse to start: the store is inside the directory, or the worker ID is fixed by a
    /// configuration that was probably copied as well; nobody else could notice a repetition.
    Refuse,
    /// Set it aside: ranges are leased from a shared store and the worker ID from a registry,
    /// which both know the other host.
    SetAside,
}

/// What is known of the worker's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerPast {
    /// The worker file says so.
    Known(WorkerRecord),
    /// There was a worker file, and it cannot be trusted.
    Lost {
        /// What happened.
        reason: String,
    },
}

/// An open, locked state directory.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: Flock<File>,
}

/// What it holds.
#[derive(Debug)]
pub struct Contents {
    /// Ranges and highest ends.
    pub journal: Journal,
    /// Highest ends salvaged from a journal that was damaged.
    pub salvaged: HashMap<BizTag, u64>,
    /// The worker's past.
    pub worker: WorkerPast,
    /// What people have to know about the opening, one sentence each.
    pub warnings: Vec<String>,
}

impl StateDir {
    /// Makes the directory where it is missing, and locks it.
    ///
    /// # Errors
    /// When another process holds it, or the operating system refuses.
    pub fn lock(path: &Path) -> Result<Self, StateError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { action, path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(io("make the state directory", path))?;
        let name = path.join(LOCK);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&name)
            .map_err(io("open", &name))?;
        let mut holder = String::new();
        // Only for the message; a lock file without a readable number is no reason to fail.
        let _ = (&mut file).take(20).read_to_string(&mut holder);
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let mut lock = lock.map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => StateError::Locked {
                path: path.to_owned(),
                holder: Some(holder.trim().to_owned()).filter(|pid| !pid.is_empty()),
            },
            errno => io("lock", &name)(errno.into()),
        })?;
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        written.map_err(io("write", &name))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The worker file.
    #[must_use]
    pub fn worker_file(&self) -> PathBuf {
        self.path.join(worker_file::FILE)
    }

    fn journal_file(&self) -> PathBuf {
        self.path.join(journal::FILE)
    }

    fn owner_file(&self) -> PathBuf {
        self.path.join(owner::FILE)
    }

    fn io(&self, action: &'static str, file: &str) -> impl FnOnce(io::Error) -> StateError {
        let path = self.path.join(file);
        move |source| StateError::Io { action, path, source }
    }

    /// Reads what is there, and makes what a new directory lacks.
    ///
    /// # Errors
    /// When it is another host's and `policy` says so, or the operating system refuses.
    pub fn open(&self, here: &Owner, policy: ForeignPolicy) -> Result<Contents, StateError> {
        if self.is_new()? {
            return self.make(here, &HashMap::new(), &WorkerRecord::fresh(), Vec::new());
        }
        if let Some(difference) = self.foreign(here)? {
            if policy == ForeignPolicy::Refuse {
                return Err(StateError::Foreign { path: self.path.clone(), difference });
            }
            let mut warnings = vec![format!("the state directory is another host's: {difference}")];
            for file in [journal::FILE, worker_file::FILE, owner::FILE] {
                warnings.extend(self.put_aside(file, "foreign")?);
            }
            return self.make(here, &HashMap::new(), &WorkerRecord::fresh(), warnings);
        }
        let mut warnings = Vec::new();
        let worker = self.worker_past(&mut warnings)?;
        let (journal, salvaged) = self.journal(&mut warnings)?;
        Ok(Contents { journal, salvaged, worker, warnings })
    }

    /// Takes the directory over for this host, whatever it says and however damaged it is, on the
    /// word of an operator that no other host goes on from it. Ranges that were left are given up;
    /// highest ends are kept; worker time starts at `not_before_ms` or the old ceiling, whichever
    /// is later. Returns what was done, one sentence each.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn adopt(&self, here: &Owner, not_before_ms: u64) -> Result<Vec<String>, StateError> {
        let floors = match self.read(journal::FILE)? {
            Some(_) => match Journal::open(&self.journal_file())
                .map_err(self.io("read", journal::FILE))?
            {
                Opened::Whole(journal) => {
                    journal.tags().iter().map(|(tag, record)| (tag.clone(), record.floor)).collect()
                }
                Opened::Damaged { floors, .. } => floors,
            },
            None => HashMap::new(),
        };
        let past = self.read(worker_file::FILE)?.and_then(|text| WorkerRecord::read(&text).ok());
        let ceiling_ms = past.map_or(0, |past| past.ceiling_ms).max(not_before_ms);
        let mut done = Vec::new();
        for file in [journal::FILE, worker_file::FILE, owner::FILE] {
            done.extend(self.keep_copy(file, "adopted")?);
        }
        let worker = WorkerRecord { ceiling_ms, ..WorkerRecord::fresh() };
        self.make(here, &floors, &worker, Vec::new())?;
        done.push(format!("the highest ends of {} tags are kept", floors.len()));
        done.push(format!("snowflake IDs start at {ceiling_ms} ms since 1970"));
        done.push(format!(
            "the directory is now that of machine {}, identity {:?}",
            here.machine, here.identity
        ));
        Ok(done)
    }

    /// Nothing was ever issued from here: there are no files, or a crash came while they were
    /// being made, before the owner file, which is the last.
    fn is_new(&self) -> Result<bool, StateError> {
        if self.read(owner::FILE)?.is_some() {
            return Ok(false);
        }
        let no_tags = match self.read(journal::FILE)? {
            Some(_) => {
                let opened =
                    Journal::open(&self.journal_file()).map_err(self.io("read", journal::FILE))?;
                matches!(opened, Opened::Whole(journal) if journal.tags().is_empty())
            }
            None => true,
        };
        let no_worker = match self.read(worker_file::FILE)? {
            Some(text) => WorkerRecord::read(&text) == Ok(WorkerRecord::fresh()),
            None => true,
        };
        Ok(no_tags && no_worker && !self.has_put_aside()?)
    }

    /// Whether something was set aside here: then a missing file does not mean a new directory.
    fn has_put_aside(&self) -> Result<bool, StateError> {
        let io = |source| StateError::Io { action: "list", path: self.path.clone(), source };
        for entry in std::fs::read_dir(&self.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let name = name.to_string_lossy();
            if [".damaged-", ".foreign-", ".adopted-"].iter().any(|mark| name.contains(mark)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn make(
        &self,
        here: &Owner,
        floors: &HashMap<BizTag, u64>,
        worker: &WorkerRecord,
        warnings: Vec<String>,
    ) -> Result<Contents, StateError> {
        let journal = Journal::create(&self.journal_file(), floors_only(floors))
            .map_err(self.io("make", journal::FILE))?;
        replace(&self.worker_file(), worker.write().as_bytes())
            .map_err(self.io("make", worker_file::FILE))?;
        // Last: with it, the directory is no longer new.
        replace(&self.owner_file(), here.write().as_bytes())
            .map_err(self.io("make", owner::FILE))?;
        let worker = WorkerPast::Known(worker.clone());
        Ok(Contents { journal, salvaged: HashMap::new(), worker, warnings })
    }

    fn foreign(&self, here: &Owner) -> Result<Option<String>, StateError> {
        Ok(match self.read(owner::FILE)? {
            None => Some(format!("{} is missing", owner::FILE)),
            Some(text) => match Owner::read(&text) {
                Ok(owner) => owner.differs_from(here),
                Err(damage) => Some(format!("{} is damaged: {damage}", owner::FILE)),
            },
        })
    }

    fn worker_past(&self, warnings: &mut Vec<String>) -> Result<WorkerPast, StateError> {
        let reason = match self.read(worker_file::FILE)? {
            None => format!("{} is missing", worker_file::FILE),
            Some(text) => match WorkerRecord::read(&text) {
                Ok(record) => return Ok(WorkerPast::Known(record)),
                Err(damage) => {
                    warnings.extend(self.put_aside(worker_file::FILE, "damaged")?);
                    format!("{} is damaged: {damage}", worker_file::FILE)
                }
            },
        };
        warnings.push(reason.clone());
        Ok(WorkerPast::Lost { reason })
    }

    fn journal(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<(Journal, HashMap<BizTag, u64>), StateError> {
        let mut salvaged = HashMap::new();
        let path = self.journal_file();
        if self.read(journal::FILE)?.is_none() {
            warnings.push(format!("{} is missing; ranges are leased anew", journal::FILE));
        } else {
            match Journal::open(&path).map_err(self.io("open", journal::FILE))? {
                Opened::Whole(journal) => return Ok((journal, salvaged)),
                Opened::Damaged { damage, floors } => {
                    warnings.push(format!(
                        "{} is damaged: {damage}; ranges are leased anew",
                        journal::FILE
                    ));
                    warnings.extend(self.keep_copy(journal::FILE, "damaged")?);
                    salvaged = floors;
                }
            }
        }
        let journal = Journal::create(&path, floors_only(&salvaged))
            .map_err(self.io("make", journal::FILE))?;
        Ok((journal, salvaged))
    }

    fn put_aside(&self, file: &str, why: &str) -> Result<Option<String>, StateError> {
        if self.read(file)?.is_none() {
            return Ok(None);
        }
        let target = set_aside(&self.path.join(file), why).map_err(self.io("set aside", file))?;
        Ok(Some(format!("{file} is set aside as {}", target.display())))
    }

    fn keep_copy(&self, file: &str, why: &str) -> Result<Option<String>, StateError> {
        if self.read(file)?.is_none() {
            return Ok(None);
        }
        let target = keep_aside(&self.path.join(file), why).map_err(self.io("set aside", file))?;
        Ok(Some(format!("{file} as it was is kept as {}", target.display())))
    }

    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, StateError> {
        match std::fs::read(self.path.join(file)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("read", file)(error)),
        }
    }
}

fn floors_only(floors: &HashMap<BizTag, u64>) -> HashMap<BizTag, journal::TagRecord> {
    let record =
        |floor: &u64| journal::TagRecord { floor: *floor, used_s: 0, left: Queue::default() };
    floors.iter().map(|(tag, floor)| (tag.clone(), record(floor))).collect()
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
