//! The state directory: locked by one process, made once, and looked at with suspicion when it is
//! opened again. What is damaged or another host's is set aside, never trusted, and never taken
//! for new.

use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};

use super::advice::Advice;
use super::database;
use super::database::RecordedDatabase;
use super::durable::{self, keep_aside, replace_marked, set_aside, sync_parent};
use super::journal::{self, JournalHeader, JournalReading, SegmentJournal, TagRecord};
use super::mark::{FileMark, Inodes};
use super::owner::{self, OwnerFile, StateOwner};
use super::properties::Properties;
use super::worker_file::{self, WorkerRecord};
use crate::ids::{BizTag, RangeQueue};

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
    /// It is not the one that leafd wrote, and what is configured would repeat what was issued since.
    #[error(
        "the state directory {path} was restored from a backup, or copied: {what}. It does not \
         know what was issued since, and its embedded database would lease that again. {advice}"
    )]
    Copied {
        /// The directory.
        path: PathBuf,
        /// What gives it away.
        what: String,
        /// How to go on.
        advice: Box<Advice>,
    },
    /// It cannot be adopted without an operator's word on what was issued.
    #[error("the state directory {path} {why}. {advice}")]
    Unknown {
        /// The directory.
        path: PathBuf,
        /// Why nobody knows.
        why: &'static str,
        /// How to go on.
        advice: Box<Advice>,
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

/// What to do with another host's state, and with a copy of one's own.
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
    inodes: Inodes,
}

/// Held until the last owner drops it, or the process has ended: whoever writes owns it as well, so
/// that no successor begins while a write is still under way.
type Lock = Arc<Flock<File>>;

/// Where the files are, as long as the directory is the one that was locked.
#[derive(Debug)]
pub struct StatePlace {
    path: PathBuf,
    lock: Lock,
}

impl StatePlace {
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
pub struct StateContents {
    /// Ranges and highest ends.
    pub journal: SegmentJournal,
    /// Whether the journal knows of everything that was ever leased: it does not when it has ever
    /// been missing or damaged.
    pub journal_is_whole: bool,
    /// The worker's past.
    pub worker: WorkerPast,
    /// Counts the starts.
    pub generation: u64,
    /// Every tag that the journal does not know starts at or above this; 0 when nothing was lost.
    pub base: u64,
    /// What people have to know about the opening, one sentence each.
    pub warnings: Vec<String>,
    /// What they may want to know.
    pub notes: Vec<String>,
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
        Ok(Self { path: path.to_owned(), lock: Arc::new(lock), inodes: Inodes::Stable })
    }

    /// Whether inode numbers tell a copy from the original.
    #[must_use]
    pub const fn with_inodes(mut self, inodes: Inodes) -> Self {
        self.inodes = inodes;
        self
    }

    /// Whether the file system knows when the directory was made.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn has_time(&self) -> Result<bool, StateError> {
        Ok(self.mark()?.has_time())
    }

    /// For the thread that writes. The directory stays locked for as long as it exists.
    #[must_use]
    pub fn place(&self) -> StatePlace {
        StatePlace { path: self.path.clone(), lock: Arc::clone(&self.lock) }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn mark(&self) -> Result<FileMark, StateError> {
        let metadata = self.lock.metadata().map_err(self.io("look at", ""))?;
        Ok(FileMark::of(&metadata))
    }

    fn journal_file(&self) -> PathBuf {
        self.path.join(journal::FILE)
    }

    fn owner_file(&self) -> PathBuf {
        self.path.join(owner::FILE)
    }

    pub(super) fn io(
        &self,
        action: &'static str,
        file: &str,
    ) -> impl FnOnce(io::Error) -> StateError {
        let path = self.path.join(file);
        move |source| StateError::Io { action, path, source }
    }

    /// Reads what is there, and makes what a new directory lacks.
    ///
    /// # Errors
    /// When it is another host's and `policy` says so, or the operating system refuses.
    pub fn open(
        &self,
        here: &StateOwner,
        policy: ForeignPolicy,
    ) -> Result<StateContents, StateError> {
        let mut files = Files::new();
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
                    files.give_up_ranges(&format!("its ranges were leased from {elsewhere}"));
                } else if let Some(what) = copied {
                    files.give_up_ranges(&format!("it was restored or copied: {what}"));
                } else if owner.content.file.is_none() {
                    files.give_up_unmarked_ranges();
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
    pub fn database(&self, place: &str) -> Result<Option<RecordedDatabase>, StateError> {
        let Some(content) = self.read(database::FILE)? else {
            return Ok(Some(RecordedDatabase::default()));
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

    /// Nothing was ever issued from here: there are no files, or a crash came while they were
    /// being made, before the owner file, which is the last.
    pub(super) fn is_new(&self) -> Result<bool, StateError> {
        if self.read(owner::FILE)?.is_some() {
            return Ok(false);
        }
        let no_tags = self.read(journal::FILE)?.is_none_or(|content| {
            matches!(journal::read(&content),
                JournalReading::Whole { tags, header, .. } if tags.is_empty() && header.base == 0)
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
    pub(super) fn make(
        &self,
        here: &StateOwner,
        files: Files,
    ) -> Result<StateContents, StateError> {
        let Files { generation, base, tags, journal_is_whole, worker, warnings, notes } = files;
        let generation = generation + 1;
        let journal =
            SegmentJournal::create(&self.journal_file(), JournalHeader { generation, base }, tags)
                .map_err(self.io("make", journal::FILE))?;
        // One that is lost stays lost.
        if let WorkerPast::Known(record) = &worker {
            let path = self.path.join(worker_file::FILE);
            replace_marked(&path, |file| record.write(generation, file))
                .map_err(self.io("make", worker_file::FILE))?;
        }
        let mut owner = OwnerFile {
            owner: here.clone(),
            generation,
            ends_are_known: journal_is_whole,
            base,
            directory: Some(self.mark()?),
            file: None,
        };
        // Last: with it, the directory is no longer new, and older files are old.
        let write = |file| {
            owner.file = Some(file);
            owner.write()
        };
        replace_marked(&self.owner_file(), write).map_err(self.io("make", owner::FILE))?;
        Ok(StateContents { journal, journal_is_whole, worker, generation, base, warnings, notes })
    }

    /// What the owner file says, when the directory is this host's; else in what it is not.
    fn owner(&self, here: &StateOwner) -> Result<Result<Marked<OwnerFile>, String>, StateError> {
        let Some(Marked { content, mark }) = self.read_marked(owner::FILE)? else {
            return Ok(Err(format!("{} is missing", owner::FILE)));
        };
        Ok(match OwnerFile::read(&content) {
            Ok(file) => match file.owner.differs_from(here) {
                Some(difference) => Err(difference),
                None => Ok(Marked { content: file, mark }),
            },
            Err(damage) => Err(format!("{} is damaged: {damage}", owner::FILE)),
        })
    }

    /// What shows that the directory, its owner file, its journal or the mark beside it is not the one
    /// that leafd wrote.
    /// The worker file stands for itself.
    pub(super) fn copied(
        &self,
        owner: Option<&Marked<OwnerFile>>,
        journal: Option<&Marked<Vec<u8>>>,
    ) -> Result<Option<Copied>, StateError> {
        let own = self.mark()?;
        if let Some(Marked { content, mark }) = owner {
            // Files of version 0.1.0 have no marks, and it did not look at inodes: whether the file
            // system keeps them is not known. An upgrade must not stop at that.
            let has_times = own.has_time() && content.directory.is_some_and(FileMark::has_time);
            let inodes = match content.file {
                None if has_times => Inodes::Unstable,
                _ => self.inodes,
            };
            let directory = Copied::find("the directory", content.directory, own, inodes);
            let file = Copied::find(owner::FILE, content.file, *mark, self.inodes);
            if let Some(copied) = directory.or(file) {
                return Ok(Some(copied));
            }
        }
        let of_journal =
            journal.and_then(|Marked { content, mark }| match journal::read(content) {
                JournalReading::Whole { file, .. } => {
                    Copied::find(journal::FILE, file, *mark, self.inodes)
                }
                JournalReading::Damaged { .. } => None,
            });
        if of_journal.is_some() {
            return Ok(of_journal);
        }
        // Not synced, so one that is empty or cut off means nothing.
        Ok(self.read_marked(journal::MARK_FILE)?.and_then(|Marked { content, mark }| {
            let written = std::str::from_utf8(&content).ok()?.split_once('\n')?.0;
            Copied::find(journal::MARK_FILE, FileMark::read(written), mark, self.inodes)
        }))
    }

    pub(super) fn refuse_copy(
        &self,
        copied: &Copied,
        journal: Option<&Marked<Vec<u8>>>,
    ) -> StateError {
        let floors = journal.map(|journal| journal::read(&journal.content).into_floors());
        let advice = Advice::new(&floors.unwrap_or_default(), copied.by_inode_alone);
        let (path, what) = (self.path.clone(), copied.what.clone());
        StateError::Copied { path, what, advice: Box::new(advice) }
    }

    /// `copied`: what shows that the directory is not the one that its files were written in.
    fn read_worker(&self, files: &mut Files, copied: Option<&Copied>) -> Result<(), StateError> {
        let reason = match self.read_marked(worker_file::FILE)? {
            None if self.has_aside(worker_file::FILE, "foreign")? => foreign_worker(),
            None => format!("{} is missing", worker_file::FILE),
            Some(Marked { content, mark }) => {
                let file = Properties::read(&content).ok().and_then(|content| content.file());
                let own = Copied::find("the file", file, mark, self.inodes);
                let wrong = match (WorkerRecord::read(&content), copied.or(own.as_ref())) {
                    (Ok((_, generation)), _) if generation < files.generation => {
                        format!("is damaged: {OLD_COPY}")
                    }
                    // The other directory may be in use, and a claim in a registry is that one's.
                    (Ok((record, _)), Some(_)) if record.shared.is_some() => COPY.to_owned(),
                    (Ok(_), Some(copied)) => format!("was restored or copied: {}", copied.what),
                    (Ok((record, _)), None) => {
                        files.worker = WorkerPast::Known(record);
                        return Ok(());
                    }
                    (Err(damage), _) => format!("is damaged: {damage}"),
                };
                files.warnings.extend(self.put_aside(worker_file::FILE, "damaged")?);
                format!("{} {wrong}", worker_file::FILE)
            }
        };
        files.warnings.push(reason.clone());
        files.worker = WorkerPast::Lost { reason };
        Ok(())
    }

    fn read_journal(
        &self,
        files: &mut Files,
        journal: Option<Marked<Vec<u8>>>,
    ) -> Result<(), StateError> {
        let name = journal::FILE;
        let Some(Marked { content, .. }) = journal else {
            files.journal_is_whole = false;
            files.warnings.push(format!("{name} is missing; ranges are leased anew"));
            return Ok(());
        };
        let (damage, floors) = match journal::read(&content) {
            JournalReading::Whole { header, tags, doubt, .. }
                if header.generation >= files.generation =>
            {
                files.generation = header.generation;
                files.base = files.base.max(header.base);
                files.tags = tags;
                if let Some(doubt) = doubt {
                    files.journal_is_whole &= !doubt.forgets_a_tag;
                    files.warnings.push(format!("{name}: {}", doubt.text));
                }
                return Ok(());
            }
            whole @ JournalReading::Whole { .. } => (OLD_COPY.to_owned(), whole.into_floors()),
            JournalReading::Damaged { damage, floors } => (damage.to_string(), floors),
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

    pub(super) fn keep_copy(&self, file: &str, why: &str) -> Result<Option<String>, StateError> {
        if self.read(file)?.is_none() {
            return Ok(None);
        }
        let target = keep_aside(&self.path.join(file), why).map_err(self.io("set aside", file))?;
        Ok(Some(format!("{file} as it was is kept as {}", target.display())))
    }

    pub(super) fn read(&self, file: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.read_marked(file)?.map(|file| file.content))
    }

    pub(super) fn read_marked(&self, file: &str) -> Result<Option<Marked<Vec<u8>>>, StateError> {
        let read = || -> io::Result<_> {
            let mut file = File::open(self.path.join(file))?;
            let mark = FileMark::of(&file.metadata()?);
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            Ok(Marked { content, mark })
        };
        match read() {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("read", file)(error)),
        }
    }
}

/// What a file says, and which file it is.
#[derive(Debug)]
pub(super) struct Marked<C> {
    pub(super) content: C,
    pub(super) mark: FileMark,
}

/// What shows that a directory or file is not the one that leafd wrote.
#[derive(Debug)]
pub(super) struct Copied {
    what: String,
    /// When it was made does not speak against it being the same.
    pub(super) by_inode_alone: bool,
}

impl Copied {
    /// `written` is the mark of what leafd wrote, `found` of what is there.
    fn find(
        name: &str,
        written: Option<FileMark>,
        found: FileMark,
        inodes: Inodes,
    ) -> Option<Self> {
        let written = written.filter(|written| written.differs_by(found, inodes))?;
        let (was, is) = (written.write(), found.write());
        Some(Self {
            what: format!("{name} was {was} when it was written and is {is} (inode@birth time)"),
            by_inode_alone: !written.differs_by(found, Inodes::Unstable),
        })
    }
}

impl std::fmt::Display for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// What is made of the files before they are written for a new generation.
pub(super) struct Files {
    pub(super) generation: u64,
    pub(super) base: u64,
    pub(super) tags: HashMap<BizTag, TagRecord>,
    pub(super) journal_is_whole: bool,
    pub(super) worker: WorkerPast,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Files {
    /// Those of a directory from which nothing was ever issued.
    pub(super) fn new() -> Self {
        Self {
            generation: 0,
            base: 0,
            tags: HashMap::new(),
            journal_is_whole: true,
            worker: WorkerPast::Known(WorkerRecord::fresh()),
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Ranges of another database are somebody else's in this one, and those of a copy were issued
    /// since. Highest ends are kept: what this host has issued of a tag, it does not issue again,
    /// wherever the tag moves.
    fn give_up_ranges(&mut self, why: &str) {
        let lost = self.drop_ranges();
        self.warnings.push(format!(
            "{why}; the {lost} IDs that were left of its ranges are given up, and tags go on above \
             the highest end that this host has seen"
        ));
    }

    /// Files of version 0.1.0 do not show whether they were restored since.
    fn give_up_unmarked_ranges(&mut self) {
        let lost = self.drop_ranges();
        if lost > 0 {
            self.notes.push(format!(
                "it was written by version 0.1.0, which does not show whether it was restored from \
                 a backup; so the {lost} IDs that were left of its ranges are given up, once"
            ));
        }
    }

    fn drop_ranges(&mut self) -> u64 {
        let mut lost = 0;
        for record in self.tags.values_mut() {
            lost += std::mem::take(&mut record.left).total();
            // Not leased again before somebody asks: that may move a row far ahead.
            record.used_s = 0;
        }
        lost
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

pub(super) fn floors_only(floors: &HashMap<BizTag, u64>) -> HashMap<BizTag, TagRecord> {
    let record = |floor: &u64| TagRecord { floor: *floor, used_s: 0, left: RangeQueue::default() };
    floors.iter().map(|(tag, floor)| (tag.clone(), record(floor))).collect()
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
