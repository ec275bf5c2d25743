//! Taking a state directory over on an operator's word: that no other host goes on from it, and, if the
//! directory does not know it, up to where IDs were issued.

use std::collections::HashMap;

use super::advice::Advice;
use super::dir::{MarkedFile, NextFiles, StateDir, StateError, WorkerPast, floors_only};
use super::journal::{self, JournalReading, RetiredDays};
use super::owner::{self, OwnerFile, StateOwner};
use super::worker_file::{self, WorkerRecord};
use crate::ids::{BizTag, MAX_END, MAX_STEP};

/// An operator's word on which IDs may have been issued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Above {
    everything: Option<u64>,
    tags: HashMap<BizTag, u64>,
}

impl Above {
    /// Adds `N`, for all tags, or `TAG=N`. Of two numbers the higher counts.
    ///
    /// # Errors
    /// When it is neither, or leaves no room for a range above it, since nothing could lower it again.
    /// The text is for the operator.
    pub(crate) fn add(&mut self, word: &str) -> Result<(), String> {
        let (tag, number) = word.rsplit_once('=').map_or((None, word), |(tag, n)| (Some(tag), n));
        let most = MAX_END - MAX_STEP - 1;
        let number = number.parse().ok().filter(|number| (0..=most).contains(number));
        let number: u64 = number.ok_or_else(|| {
            format!("{word:?} is neither a number nor TAG=NUMBER, with the number at most {most}")
        })?;
        let known = match tag {
            None => self.everything.get_or_insert(number),
            Some(tag) => {
                let tag = BizTag::new(tag).map_err(|bad| format!("{word:?}: {bad}"))?;
                self.tags.entry(tag).or_insert(number)
            }
        };
        *known = number.max(*known);
        Ok(())
    }

    #[must_use]
    pub(crate) fn is_given(&self) -> bool {
        self.everything.is_some() || !self.tags.is_empty()
    }

    /// Where tags start that are not named: above the number for all tags, else above the highest
    /// number given. 0 if none is given.
    fn base(&self) -> u64 {
        let number = self.everything.or_else(|| self.tags.values().max().copied());
        number.map_or(0, |number| number + 1)
    }
}

/// What adopting needs to know about the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeasedFrom {
    /// The database is shared with other hosts and knows what was leased.
    Shared,
    /// The database may have been lost or restored together with the directory.
    Embedded {
        /// Its file exists and is not a copy.
        is_there: bool,
    },
}

/// What adopting did.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// For the operator, one sentence each.
    pub(crate) done: Vec<String>,
    /// No tag goes on below its number here.
    pub(crate) floors: HashMap<BizTag, u64>,
    /// No other tag of a past day goes on below what this says.
    pub(crate) retired: RetiredDays,
    /// No other tag starts below this; 0: no limit.
    pub(crate) base: u64,
    /// Whether these numbers are known to be above every ID that was issued.
    pub(crate) ends_are_known: bool,
}

impl StateDir {
    /// Makes the directory this host's, whatever it says and however damaged it is. The operator
    /// vouches that no other host goes on from it. Drops the remaining ranges, keeps the highest ends
    /// and raises them to `above`. Worker time starts at `not_before_ms` (since 1970) or at the old
    /// ceiling, whichever is later.
    ///
    /// # Errors
    /// When nobody knows what was issued and `above` does not say it, or the operating system refuses.
    pub(crate) fn adopt(
        &self,
        here: &StateOwner,
        not_before_ms: u64,
        from: LeasedFrom,
        above: &Above,
    ) -> Result<Adopted, StateError> {
        let is_new = self.is_new()?;
        let owner = self.read_marked(owner::FILE)?.and_then(|MarkedFile { content, mark }| {
            OwnerFile::read(&content).ok().map(|content| MarkedFile { content, mark })
        });
        let journal = self.read_marked(journal::FILE)?;
        let copied = self.copied(owner.as_ref(), journal.as_ref())?;
        let reading = journal.as_ref().map(|journal| journal::read(&journal.content));
        let (is_whole, journal_base) = match &reading {
            Some(JournalReading::Whole { header, cut_off, .. }) => {
                (cut_off.as_ref().is_none_or(|line| !line.forgets_a_tag), header.base)
            }
            Some(JournalReading::Damaged { .. }) => (false, 0),
            None => (is_new, 0),
        };
        let were_known = owner.as_ref().map_or(is_new, |owner| owner.content.ends_are_known);
        let ends_are_known = is_whole && were_known && copied.is_none();
        let (mut floors, retired) = reading.map(JournalReading::into_floors).unwrap_or_default();
        if let LeasedFrom::Embedded { is_there } = from
            && !above.is_given()
        {
            if let Some(copied) = &copied {
                return Err(self.refuse_copy(copied, journal.as_ref()));
            }
            if let Some(why) = why_unknown(is_new, ends_are_known, is_there) {
                let advice = Box::new(Advice::new(&floors, false));
                return Err(StateError::Unknown { path: self.path().to_owned(), why, advice });
            }
        }
        let past = self.read(worker_file::FILE)?.and_then(|text| WorkerRecord::read(&text).ok());
        let (past_ms, past_generation) =
            past.map_or((0, 0), |(past, generation)| (past.ceiling_ms, generation));
        let generation = owner.as_ref().map_or(0, |owner| owner.content.generation);
        let ceiling_ms = past_ms.max(not_before_ms);
        let mut done = Vec::new();
        for file in [journal::FILE, worker_file::FILE, owner::FILE] {
            done.extend(self.keep_copy(file, "adopted")?);
        }
        if is_new {
            super::durable::sync_names(self.path()).map_err(self.io("sync the names above", ""))?;
        }
        let known_base = owner.as_ref().map_or(0, |owner| owner.content.base).max(journal_base);
        let base = known_base.max(above.base());
        let retired = retired.not_below(base);
        raise(&mut floors, above, &retired);
        done.push(format!("the highest ends of {} tags are kept", floors.len()));
        if base > 0 {
            done.push(format!("every tag that is not known here starts at {base} or above"));
        }
        done.push(format!("snowflake IDs start at {ceiling_ms} ms since 1970"));
        done.push(format!(
            "the directory is now that of machine {}, identity {:?}",
            here.machine, here.identity
        ));
        // A shared store knows the rest. For the embedded one, the operator's word counts.
        let ends_are_known = match from {
            LeasedFrom::Embedded { .. } => ends_are_known || above.is_given(),
            LeasedFrom::Shared => ends_are_known && !is_new,
        };
        let worker = WorkerRecord { ceiling_ms, ..WorkerRecord::fresh() };
        self.make(
            here,
            NextFiles {
                generation: generation.max(past_generation),
                base,
                tags: floors_only(&floors),
                retired: retired.clone(),
                journal_is_whole: ends_are_known,
                worker: WorkerPast::Known(worker),
                ..NextFiles::new()
            },
        )?;
        Ok(Adopted { done, floors, retired, base, ends_are_known })
    }
}

/// Why only the operator can know what was issued from an embedded store; `None` if the directory or the
/// database knows.
const fn why_unknown(
    is_new: bool,
    ends_are_known: bool,
    database_is_there: bool,
) -> Option<&'static str> {
    if is_new {
        Some("is empty, so this host does not know what was issued from the one before it")
    } else if !ends_are_known && !database_is_there {
        Some(
            "has lost its database, or has an older copy of it, and its journal does not know all \
             that was issued",
        )
    } else {
        None
    }
}

/// Raises the highest ends to what the operator says. Never lowers one.
fn raise(floors: &mut HashMap<BizTag, u64>, above: &Above, retired: &RetiredDays) {
    if !above.is_given() {
        return;
    }
    for (_, floor) in floors.iter_mut().filter(|(tag, _)| !above.tags.contains_key(*tag)) {
        let base = above.base();
        *floor = base.max(*floor);
    }
    for (tag, number) in &above.tags {
        let floor = floors.entry(tag.clone()).or_insert_with(|| retired.floor_of(tag.as_str()));
        *floor = (number + 1).max(*floor);
    }
}
