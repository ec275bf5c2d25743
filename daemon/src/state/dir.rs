//! The state directory: locked by one process, made once, and looked at with suspicion when it is
//! opened again. What is damaged or another host's is set aside, never trusted, and never taken
//! for new.

use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};

use super::database;
use super::durable::{self, keep_aside, replace, set_aside, sync_parent};
use super::journal::{self, Journal, Reading, TagRecord};
use super::mark::Mark;
use super::owner::{self, Owner};
use super::worker_file::{self, WorkerRecord};
use crate::segment::range::Queue;
use crate::segment::store::Recorded;
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
    /// Refuse to start: the store is inside the directory, and nobody else could notice a
    /// repetition.
    Refuse,
    /// Set it aside: ranges are leased from a shared store, which knows the other host.
    SetAside {
        /// The worker ID, where the configuration fixes it: when the directory was issuing with the
        /// same one, nobody knows the other host, and there are no snowflake IDs.
        fixed_worker: Option<u64>,
    },
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

/// A locked state directory.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// The directory itself is locked, since a file in it could be removed and made anew.
    lock: Lock,
}

/// Held until the last owner drops it, or the process has ended: whoever writes owns it as well, so
/// that no successor begins while a write is still under way.
type Lock = Arc<Flock<File>>;

/// Where the files are, as long as the directory is the one that was locked.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    lock: Lock,
}

impl Place {
    /// The worker file.
    #[must_use]
    pub fn worker_file(&self) -> PathBuf {
        self.path.join(worker_file::FILE)
    }

    /// The file that says which database the ranges come from.
    #[must_use]
    pub fn database_file(&self) -> PathBuf {
        self.path.join(database::FILE)
    }

    /// Whether the path still leads to the directory that was locked.
    ///
    /// # Errors
    /// When it was removed or replaced: what is in its place is not ours to write to.
    pub fn check(&self) -> io::Result<()> {
        let (ours, there) = (self.lock.metadata()?, std::fs::metadata(&self.path)?);
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            return Ok(());
        }
        let text = format!("{} was replaced while leafd ran; restart leafd", self.path.display());
        Err(io::Error::other(text))
    }
}

/// What it holds.
#[derive(Debug)]
pub struct Contents {
    /// Ranges and highest ends.
    pub journal: Journal,
    /// Whether the journal knows of everything that was ever leased: it does not when it has ever
    /// been missing or damaged.
    pub journal_is_whole: bool,
    /// The worker's past.
    pub worker: WorkerPast,
    /// Counts the starts.
    pub generation: u64,
    /// What people have to know about the opening, one sentence each.
    pub warnings: Vec<String>,
}

/// What adopting did.
#[derive(Debug)]
pub struct Adopted {
    /// One sentence each.
    pub done: Vec<String>,
    /// Whether the highest ends of all tags are known.
    pub ends_are_known: bool,
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
        let directory = File::open(path).map_err(io("open", path))?;
        let name = path.join(LOCK);
        let lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => {
                // Only for the message.
                let holder = std::fs::read_to_string(&name).unwrap_or_default();
                let holder = Some(holder.trim().to_owned()).filter(|pid| !pid.is_empty());
                StateError::Locked { path: path.to_owned(), holder }
            }
            errno => io("lock", path)(errno.into()),
        })?;
        std::fs::write(&name, format!("{}\n", std::process::id())).map_err(io("write", &name))?;
        Ok(Self { path: path.to_owned(), lock: Arc::new(lock) })
    }

    /// For the thread that writes. The directory stays locked for as long as it exists.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { path: self.path.clone(), lock: Arc::clone(&self.lock) }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn mark(&self) -> Result<Mark, StateError> {
        let metadata = self.lock.metadata().map_err(self.io("look at", ""))?;
        Ok(Mark::of(&metadata))
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
        let mut files = Files {
            generation: 0,
            tags: HashMap::new(),
            journal_is_whole: true,
            worker: WorkerPast::Known(WorkerRecord::fresh()),
            warnings: Vec::new(),
        };
        if self.is_new()? {
            durable::sync_names(&self.path).map_err(self.io("sync the names above", ""))?;
            return self.make(here, files);
        }
        let difference = match self.owner(here)? {
            Ok((owner, generation, ends_are_known, mark)) => {
                files.generation = generation;
                files.journal_is_whole = ends_are_known;
                let own = self.mark()?;
                self.read_worker(&mut files, mark.is_some_and(|mark| mark.differs_from(own)))?;
                self.read_journal(&mut files)?;
                if let Some(elsewhere) = owner.leased_elsewhere(here) {
                    files.give_up_ranges(&elsewhere);
                }
                return self.make(here, files);
            }
            Err(difference) => difference,
        };
        let ForeignPolicy::SetAside { fixed_worker } = policy else {
            return Err(StateError::Foreign { path: self.path.clone(), difference });
        };
        files.warnings.push(format!("the state directory is another host's: {difference}"));
        // Should an embedded database lie in it as well, it is that host's.
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

    /// What is recorded of the database at `place`. `None`: the file is damaged, and nobody knows
    /// where the ranges come from.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn database(&self, place: &str) -> Result<Option<Recorded>, StateError> {
        let Some(content) = self.read(database::FILE)? else {
            return Ok(Some(Recorded::default()));
        };
        Ok(database::read(&content, place).ok())
    }

    /// Forgets which database the ranges came from: they were given up.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn forget_database(&self) -> Result<(), StateError> {
        let path = self.path.join(database::FILE);
        match std::fs::remove_file(&path).and_then(|()| sync_parent(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.io("remove", database::FILE)(error))
            }
            _ => Ok(()),
        }
    }

    /// Whether the worker file is of this worker ID, or may be.
    fn may_have_issued_as(&self, worker: Option<u64>) -> Result<bool, StateError> {
        let (Some(worker), Some(text)) = (worker, self.read(worker_file::FILE)?) else {
            return Ok(worker.is_some());
        };
        let record = WorkerRecord::read(&text).ok();
        let was = record.map_or(Some(worker), |(record, _)| record.worker);
        Ok(was == Some(worker))
    }

    /// Takes the directory over for this host, whatever it says and however damaged it is, on the
    /// word of an operator that no other host goes on from it. Ranges that were left are given up;
    /// highest ends are kept; worker time starts at `not_before_ms` or the old ceiling, whichever
    /// is later. Returns what was done, one sentence each.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn adopt(&self, here: &Owner, not_before_ms: u64) -> Result<Adopted, StateError> {
        let reading = self.read(journal::FILE)?.map(|content| journal::read(&content));
        let (floors, whole) = match reading {
            Some(Reading::Whole { tags, .. }) => {
                (tags.into_iter().map(|(tag, record)| (tag, record.floor)).collect(), true)
            }
            Some(Reading::Damaged { floors, .. }) => (floors, false),
            None => (HashMap::new(), self.is_new()?),
        };
        let past = self.read(worker_file::FILE)?.and_then(|text| WorkerRecord::read(&text).ok());
        let (past_ms, past_generation) =
            past.map_or((0, 0), |(past, generation)| (past.ceiling_ms, generation));
        let owner = self.read(owner::FILE)?.and_then(|text| Owner::read(&text).ok());
        let (generation, were_known) = match owner {
            Some((_, generation, were_known, _)) => (generation, were_known),
            None => (0, self.is_new()?),
        };
        let ends_are_known = whole && were_known;
        let ceiling_ms = past_ms.max(not_before_ms);
        let mut done = Vec::new();
        for file in [journal::FILE, worker_file::FILE, owner::FILE] {
            done.extend(self.keep_copy(file, "adopted")?);
        }
        done.push(format!("the highest ends of {} tags are kept", floors.len()));
        done.push(format!("snowflake IDs start at {ceiling_ms} ms since 1970"));
        done.push(format!(
            "the directory is now that of machine {}, identity {:?}",
            here.machine, here.identity
        ));
        let worker = WorkerRecord { ceiling_ms, ..WorkerRecord::fresh() };
        self.make(
            here,
            Files {
                generation: generation.max(past_generation),
                tags: floors_only(&floors),
                journal_is_whole: ends_are_known,
                worker: WorkerPast::Known(worker),
                warnings: Vec::new(),
            },
        )?;
        Ok(Adopted { done, ends_are_known })
    }

    /// Nothing was ever issued from here: there are no files, or a crash came while they were
    /// being made, before the owner file, which is the last.
    fn is_new(&self) -> Result<bool, StateError> {
        if self.read(owner::FILE)?.is_some() {
            return Ok(false);
        }
        let no_tags = self.read(journal::FILE)?.is_none_or(|content| {
            matches!(journal::read(&content), Reading::Whole { tags, .. } if tags.is_empty())
        });
        let no_worker = self.read(worker_file::FILE)?.is_none_or(|content| {
            WorkerRecord::read(&content).is_ok_and(|(record, _)| record == WorkerRecord::fresh())
        });
        Ok(no_tags && no_worker && !self.has_put_aside()?)
    }

    /// Whether something was set aside here: then a missing file does not mean a new directory.
    fn has_put_aside(&self) -> Result<bool, StateError> {
        for why in ["damaged", "foreign", "adopted"] {
            if self.has_aside("", why)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a file, or with an empty name any file, was set aside for this reason.
    fn has_aside(&self, file: &str, why: &str) -> Result<bool, StateError> {
        let io = |source| StateError::Io { action: "list", path: self.path.clone(), source };
        let mark = format!(".{why}-");
        for entry in std::fs::read_dir(&self.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(file) && name.contains(&mark) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes all files for a new generation.
    fn make(&self, here: &Owner, files: Files) -> Result<Contents, StateError> {
        let Files { generation, tags, journal_is_whole, worker, warnings } = files;
        let generation = generation + 1;
        let journal = Journal::create(&self.journal_file(), generation, tags)
            .map_err(self.io("make", journal::FILE))?;
        // One that is lost stays lost.
        if let WorkerPast::Known(record) = &worker {
            let path = self.path.join(worker_file::FILE);
            replace(&path, record.write(generation).as_bytes())
                .map_err(self.io("make", worker_file::FILE))?;
        }
        // Last: with it, the directory is no longer new, and older files are old.
        let owner = here.write(generation, journal_is_whole, self.mark()?);
        replace(&self.owner_file(), owner.as_bytes()).map_err(self.io("make", owner::FILE))?;
        Ok(Contents { journal, journal_is_whole, worker, generation, warnings })
    }

    /// What the owner file says when the directory is this host's; else in what it is not.
    fn owner(&self, here: &Owner) -> Result<Result<OwnerFile, String>, StateError> {
        Ok(match self.read(owner::FILE)? {
            None => Err(format!("{} is missing", owner::FILE)),
            Some(text) => match Owner::read(&text) {
                Ok(file) => match file.0.differs_from(here) {
                    Some(difference) => Err(difference),
                    None => Ok(file),
                },
                Err(damage) => Err(format!("{} is damaged: {damage}", owner::FILE)),
            },
        })
    }

    /// `is_copy`: the directory is not the one that its files were written in.
    fn read_worker(&self, files: &mut Files, is_copy: bool) -> Result<(), StateError> {
        let reason = match self.read(worker_file::FILE)? {
            None if self.has_aside(worker_file::FILE, "foreign")? => foreign_worker(),
            None => format!("{} is missing", worker_file::FILE),
            Some(text) => {
                let wrong = match WorkerRecord::read(&text) {
                    Ok((_, generation)) if generation < files.generation => {
                        format!("is damaged: {OLD_COPY}")
                    }
                    // The other directory may be in use, and a claim in a registry is that one's.
                    Ok((record, _)) if is_copy && record.shared.is_some() => COPY.to_owned(),
                    Ok((record, _)) => {
                        files.worker = WorkerPast::Known(record);
                        return Ok(());
                    }
                    Err(damage) => format!("is damaged: {damage}"),
                };
                files.warnings.extend(self.put_aside(worker_file::FILE, "damaged")?);
                format!("{} {wrong}", worker_file::FILE)
            }
        };
        files.warnings.push(reason.clone());
        files.worker = WorkerPast::Lost { reason };
        Ok(())
    }

    fn read_journal(&self, files: &mut Files) -> Result<(), StateError> {
        let name = journal::FILE;
        let Some(content) = self.read(name)? else {
            files.journal_is_whole = false;
            files.warnings.push(format!("{name} is missing; ranges are leased anew"));
            return Ok(());
        };
        let (damage, floors) = match journal::read(&content) {
            Reading::Whole { generation, tags, doubt } if generation >= files.generation => {
                files.generation = generation;
                files.tags = tags;
                if let Some(doubt) = doubt {
                    files.journal_is_whole &= !doubt.forgets_a_tag;
                    files.warnings.push(format!("{name}: {}", doubt.text));
                }
                return Ok(());
            }
            Reading::Whole { tags, .. } => {
                let floors = tags.into_iter().map(|(tag, record)| (tag, record.floor));
                (OLD_COPY.to_owned(), floors.collect())
            }
            Reading::Damaged { damage, floors } => (damage.to_string(), floors),
        };
        files.journal_is_whole = false;
        files.warnings.push(format!("{name} is damaged: {damage}; ranges are leased anew"));
        files.warnings.extend(self.keep_copy(name, "damaged")?);
        files.tags = floors_only(&floors);
        Ok(())
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

/// What is made of the files before they are written for a new generation.
struct Files {
    generation: u64,
    tags: HashMap<BizTag, TagRecord>,
    journal_is_whole: bool,
    worker: WorkerPast,
    warnings: Vec<String>,
}

impl Files {
    /// Ranges of another database are somebody else's in this one. Highest ends are kept: what
    /// this host has issued of a tag, it does not issue again, wherever the tag moves.
    fn give_up_ranges(&mut self, elsewhere: &str) {
        let mut lost = 0;
        for record in self.tags.values_mut() {
            lost += std::mem::take(&mut record.left).total();
            // Not leased again before somebody asks: that may move a row far ahead.
            record.used_s = 0;
        }
        self.warnings.push(format!(
            "its ranges were leased from {elsewhere}; the {lost} IDs that were left of them are \
             given up, and tags go on above the highest end that this host has seen"
        ));
    }
}

fn foreign_worker() -> String {
    format!(
        "{} was another host's, with the same worker ID (if that host still runs, give this one a \
         worker.id of its own first)",
        worker_file::FILE
    )
}

const OLD_COPY: &str = "it is older than owner.properties, as when an old copy was put back";

const COPY: &str = "is another directory's, of which this one is a copy; its worker ID stays there";

/// What the owner file says.
type OwnerFile = (Owner, u64, bool, Option<Mark>);

fn floors_only(floors: &HashMap<BizTag, u64>) -> HashMap<BizTag, TagRecord> {
    let record = |floor: &u64| TagRecord { floor: *floor, used_s: 0, left: Queue::default() };
    floors.iter().map(|(tag, floor)| (tag.clone(), record(floor))).collect()
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
