//! What a directory holds: reading the worker file and the journal with distrust, and writing all files
//! for the next start.

use std::collections::HashMap;

use super::StateDir;
use super::copies::{CopySign, MarkedFile};
use super::error::{StateError, io};
use super::lock::WITNESS_FILE;
use crate::ids::{BizTag, RangeQueue};
use crate::state::durable::{self, replace_marked};
use crate::state::journal::{
    self, JournalHeader, JournalReading, RetiredDays, SegmentJournal, TagRecord,
};
use crate::state::owner::{self, OwnerFile, StateOwner};
use crate::state::properties::Properties;
use crate::state::worker_file::{self, WorkerRecord};

/// What is known of the worker's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerPast {
    /// What the worker file says.
    Known(WorkerRecord),
    /// The worker file is missing or cannot be trusted.
    Lost {
        /// What happened to it.
        reason: String,
    },
}

/// What an open directory holds.
#[derive(Debug)]
pub(crate) struct StateContents {
    /// The ranges and highest ends of all tags.
    pub(crate) journal: SegmentJournal,
    /// Whether the journal knows everything that was ever leased: false if it was ever missing or
    /// damaged.
    pub(crate) journal_is_whole: bool,
    /// What is known of the worker's past.
    pub(crate) worker: WorkerPast,
    /// The number of this start.
    pub(crate) generation: u64,
    /// What an operator has to know about the opening, one sentence each.
    pub(crate) warnings: Vec<String>,
    /// What an operator may want to know, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// The contents of the files for the next start, before they are written.
pub(in crate::state) struct NextFiles {
    /// The number of the last start.
    pub(in crate::state) generation: u64,
    pub(in crate::state) base: u64,
    pub(in crate::state) tags: HashMap<BizTag, TagRecord>,
    pub(in crate::state) retired: RetiredDays,
    pub(in crate::state) journal_is_whole: bool,
    /// Whether this start knows all that the last one knew of what it leased.
    pub(in crate::state) continues: bool,
    pub(in crate::state) worker: WorkerPast,
    pub(in crate::state) warnings: Vec<String>,
    pub(in crate::state) notes: Vec<String>,
}

impl NextFiles {
    /// The files of a directory from which nothing was ever issued.
    pub(in crate::state) fn new() -> Self {
        Self {
            generation: 0,
            base: 0,
            tags: HashMap::new(),
            retired: RetiredDays::default(),
            journal_is_whole: true,
            continues: false,
            worker: WorkerPast::Known(WorkerRecord::fresh()),
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Drops the ranges: those of another database belong to other hosts in this one, and those of a
    /// copy were issued since. Highest ends stay: whatever this host has issued of a tag, it does not
    /// issue again, wherever the tag moves.
    pub(super) fn drop_ranges_because(&mut self, why: &str) {
        let lost = self.drop_ranges();
        self.warnings.push(format!(
            "{why}; the {lost} IDs that were left of its ranges are given up, and tags go on above \
             the highest end that this host has seen"
        ));
    }

    /// Drops the ranges of version 0.1.0, whose files do not show whether they were restored since.
    pub(super) fn drop_unmarked_ranges(&mut self) {
        let lost = self.drop_ranges();
        if lost > 0 {
            self.notes.push(format!(
                "it was written by version 0.1.0, which does not show whether it was restored from \
                 a backup; so the {lost} IDs that were left of its ranges are given up, once"
            ));
        }
    }

    fn drop_ranges(&mut self) -> u64 {
        self.continues = false;
        let mut lost = 0;
        for record in self.tags.values_mut() {
            lost += std::mem::take(&mut record.left).total();
            // Keeps leafd from leasing before somebody asks: a lease may move the row far ahead.
            record.used_s = 0;
        }
        lost
    }
}

impl StateDir {
    /// Writes all files for the next start.
    pub(in crate::state) fn make(
        &self,
        here: &StateOwner,
        files: NextFiles,
    ) -> Result<StateContents, StateError> {
        let NextFiles { base, tags, journal_is_whole, worker, warnings, notes, .. } = files;
        let generation = files.generation + 1;
        let retired = files.retired.not_below(base);
        let path = |file: &str| self.path.join(file);
        if !files.continues {
            // In the table of witnesses, this directory must not stand for what it no longer knows.
            durable::remove(&path(WITNESS_FILE)).map_err(io("remove", path(WITNESS_FILE)))?;
        }
        let header = JournalHeader { generation, base };
        let journal = SegmentJournal::create(&path(journal::FILE), header, tags, retired)
            .map_err(io("make", path(journal::FILE)))?;
        // A lost worker file stays lost.
        if let WorkerPast::Known(record) = &worker {
            replace_marked(&path(worker_file::FILE), |file| record.write(generation, file))
                .map_err(io("make", path(worker_file::FILE)))?;
        }
        let mut owner = OwnerFile {
            owner: here.clone(),
            generation,
            ends_are_known: journal_is_whole,
            base,
            directory: Some(self.mark()?),
            file: None,
        };
        // The owner file comes last: with it, the directory is no longer new, and files with a lower
        // generation are old.
        let write = |file| {
            owner.file = Some(file);
            owner.write()
        };
        replace_marked(&path(owner::FILE), write).map_err(io("make", path(owner::FILE)))?;
        Ok(StateContents { journal, journal_is_whole, worker, generation, warnings, notes })
    }

    /// Reads the worker file. `copied` is a sign that the whole directory is a copy.
    pub(super) fn read_worker(
        &self,
        files: &mut NextFiles,
        copied: Option<&CopySign>,
    ) -> Result<(), StateError> {
        let reason = match self.read_marked(worker_file::FILE)? {
            None if self.has_aside(worker_file::FILE, "foreign")? => foreign_worker(),
            None => format!("{} is missing", worker_file::FILE),
            Some(MarkedFile { content, mark }) => {
                let file = Properties::read(&content).ok().and_then(|content| content.file());
                let own = CopySign::find("the file", file, mark, self.inodes);
                let wrong = match (WorkerRecord::read(&content), copied.or(own.as_ref())) {
                    (Ok((_, generation)), _) if generation < files.generation => {
                        format!("is damaged: {OLD_COPY}")
                    }
                    // The original directory may be in use, and a claim in a registry belongs to it.
                    (Ok((record, _)), Some(_)) if record.shared.is_some() => COPY.to_owned(),
                    (Ok(_), Some(copied)) => format!("was restored or copied: {copied}"),
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

    pub(super) fn read_journal(
        &self,
        files: &mut NextFiles,
        journal: Option<MarkedFile<Vec<u8>>>,
    ) -> Result<(), StateError> {
        let name = journal::FILE;
        let Some(MarkedFile { content, .. }) = journal else {
            files.journal_is_whole = false;
            files.warnings.push(format!("{name} is missing; leafd leases new ranges"));
            return Ok(());
        };
        let reading = match journal::read(&content) {
            JournalReading::Whole { header, tags, retired, cut_off, .. }
                if header.generation >= files.generation =>
            {
                files.generation = header.generation;
                files.base = files.base.max(header.base);
                files.tags = tags;
                files.retired = retired;
                files.continues = cut_off.as_ref().is_none_or(|line| !line.forgets_a_tag);
                if let Some(line) = cut_off {
                    files.journal_is_whole &= !line.forgets_a_tag;
                    files.warnings.push(format!("{name}: {}", line.text));
                }
                return Ok(());
            }
            reading => reading,
        };
        let damage = match &reading {
            JournalReading::Whole { .. } => OLD_COPY.to_owned(),
            JournalReading::Damaged { damage, .. } => damage.to_string(),
        };
        files.journal_is_whole = false;
        files.warnings.push(format!("{name} is damaged: {damage}; leafd leases new ranges"));
        files.warnings.extend(self.keep_copy(name, "damaged")?);
        let (floors, retired) = reading.into_floors();
        files.tags = floors_only(&floors);
        files.retired = retired;
        Ok(())
    }
}

pub(super) fn foreign_worker() -> String {
    format!(
        "{} was another host's, with the same worker ID (if that host still runs, give this one a \
         worker.id of its own first)",
        worker_file::FILE
    )
}

const OLD_COPY: &str = "it is older than owner.properties, as when an old copy was put back";

const COPY: &str = "is another directory's, of which this one is a copy; its worker ID stays there";

pub(in crate::state) fn floors_only(floors: &HashMap<BizTag, u64>) -> HashMap<BizTag, TagRecord> {
    let record = |floor: &u64| TagRecord { floor: *floor, used_s: 0, left: RangeQueue::default() };
    floors.iter().map(|(tag, floor)| (tag.clone(), record(floor))).collect()
}
