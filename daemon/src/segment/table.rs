//! Which names memory keeps: tags of which this host knows a high-water mark, names that are only
//! being looked up, and the marks of removed tags. Plain bookkeeping: no clock, no IO.
//!
//! A lookup becomes a tag once the store has granted a range. Until then it may be evicted, and an
//! asker of many names evicts its own first (`table/lookups.rs`). A mark is never forgotten, since
//! uniqueness needs it; those of past days become one number for each series (`past_days.rs`).

mod lookups;

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use tokio::sync::Semaphore;

use self::lookups::Lookups;
use crate::ids::BizTag;
use crate::state::journal::{RetiredDays, RetiredSeries, series_of};

/// A fast hash, since every request may look up a name. Its key is random, so a caller that chooses
/// the names can at most slow down requests of its own host.
type Map<T> = HashMap<BizTag, T, RandomState>;

/// Hashes names for the tags of one table.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameHasher(RandomState);

/// The hash of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameHash(u64);

impl NameHasher {
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        NameHash(self.0.hash_one(name))
    }
}

/// Where the tag of a name may be: its slot, if somebody has looked, or its hash alone. A table that has
/// changed since may have another tag there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TagPlace {
    pub(crate) hash: NameHash,
    slot: Option<usize>,
}

impl TagPlace {
    pub(crate) const fn unseen(hash: NameHash) -> Self {
        Self { hash, slot: None }
    }
}

/// A user that asks for names. The table only compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asker(pub(crate) u64);

/// Permits for the lookups of one asker: that many of them queue at the store with those of others.
pub(super) type Lane = Arc<Semaphore>;

/// What the table needs from a tag or a lookup.
pub(super) trait TableEntry {
    fn name(&self) -> &BizTag;

    /// Gives the entry up if it is a lookup that nobody waits for and that is not in flight.
    /// Returns whether it did.
    fn evict(&self) -> bool;

    /// Gives the entry up if it is a removed tag of which nothing is left, and returns its
    /// high-water mark.
    fn retire(&self) -> Option<u64>;

    /// An asker with a shorter queue wants the same name: queue in its lane.
    fn hasten(&self, lane: &Lane);
}

/// Why there is no room for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableFull {
    /// Memory holds `limit` tags, and the high-water marks of `removed` others.
    Tags { limit: usize, removed: usize },
    /// The asker waits for this many names already.
    Lookups(usize),
}

#[derive(Debug)]
pub(super) struct TagTable<T> {
    max_tags: usize,
    hasher: NameHasher,
    /// Small slots, of which many fit into the processor's cache. The hash decides nearly always, so a
    /// search reads no other tag than the one that it finds.
    tags: HashTable<(NameHash, Arc<T>)>,
    lookups: Lookups<T>,
    /// The high-water marks of removed tags, at most `max_tags`.
    marks: Map<u64>,
    /// What is left of tags of past days that are neither among the tags nor among the marks.
    retired: RetiredDays,
    /// All names of the above, so that a walk can release the table between two pages.
    order: BTreeSet<BizTag>,
    /// Tags that were removed since the last sweep.
    removed: usize,
}

impl<T: TableEntry> TagTable<T> {
    /// `lane_permits` is the number of permits in the lane of each asker.
    pub(super) fn new(max_tags: usize, lane_permits: usize, hasher: NameHasher) -> Self {
        Self {
            max_tags,
            hasher,
            tags: HashTable::new(),
            lookups: Lookups::new(lane_permits),
            marks: Map::default(),
            retired: RetiredDays::default(),
            order: BTreeSet::new(),
            removed: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.get_hashed(self.hasher.hash(name.as_bytes()), name)
    }

    #[inline]
    fn get_hashed(&self, hash: NameHash, name: &str) -> Option<&Arc<T>> {
        let is_it = |slot: &(NameHash, Arc<T>)| slot.0 == hash && slot.1.name().as_str() == name;
        Some(&self.tags.find(hash.0, is_it)?.1)
    }

    /// The slot with this hash and the tag in it. Does not read the tag, so its name may be another one.
    #[inline]
    pub(super) fn guess(&self, hash: NameHash) -> (TagPlace, Option<&T>) {
        let slot = self.tags.find_bucket_index(hash.0, |slot| slot.0 == hash);
        let tag = slot.and_then(|slot| self.tags.get_bucket(slot)).map(|slot| &*slot.1);
        (TagPlace { hash, slot }, tag)
    }

    /// As [`Self::get`], where the name may be that of `place`.
    #[inline]
    pub(super) fn get_near(&self, place: TagPlace, name: &str) -> Option<&Arc<T>> {
        let near = match place.slot {
            Some(slot) => self.tags.get_bucket(slot).map(|slot| &slot.1),
            None => self.get_hashed(place.hash, name),
        };
        near.filter(|tag| tag.name().as_str() == name).or_else(|| self.get(name))
    }

    /// Removes the tag of this name.
    fn remove(&mut self, name: &BizTag) {
        let hash = self.hasher.hash(name.as_str().as_bytes());
        let is_it = |slot: &(NameHash, Arc<T>)| slot.0 == hash && slot.1.name() == name;
        if let Ok(slot) = self.tags.find_entry(hash.0, is_it) {
            slot.remove();
        }
    }

    /// The tag of this name, or its lookup.
    pub(super) fn get_any(&self, name: &str) -> Option<&Arc<T>> {
        self.get(name).or_else(|| self.lookups.get(name))
    }

    /// The high-water mark of a removed tag, otherwise 0.
    pub(super) fn removed_mark(&self, name: &BizTag) -> u64 {
        self.marks.get(name).copied().unwrap_or(0)
    }

    /// Where a name goes on that is not among the tags: at the mark of a removed tag, or where those of its
    /// series left that are of past days. Otherwise 0.
    pub(super) fn mark(&self, name: &BizTag) -> u64 {
        self.removed_mark(name).max(self.retired_floor(name.as_str()))
    }

    /// How many tags there are.
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = &Arc<T>> {
        self.tags.iter().map(|slot| &slot.1)
    }

    pub(super) fn lookups(&self) -> impl Iterator<Item = &Arc<T>> {
        self.lookups.values()
    }

    /// Keeps a tag that has a high-water mark, in place of its lookup and of its mark.
    pub(super) fn insert(&mut self, name: BizTag, entry: Arc<T>) {
        self.marks.remove(&name);
        self.lookups.remove(&name);
        let hash = self.hasher.hash(name.as_str().as_bytes());
        self.remove(&name);
        self.order.insert(name);
        self.tags.insert_unique(hash.0, (hash, entry), |slot| slot.0.0);
    }

    /// Whether one more tag would be too many.
    ///
    /// # Errors
    /// [`TableFull::Tags`].
    pub(super) fn check_room(&mut self) -> Result<(), TableFull> {
        if self.tags.len() >= self.max_tags && self.removed > 0 {
            self.sweep();
        }
        if self.tags.len() < self.max_tags {
            return Ok(());
        }
        Err(TableFull::Tags { limit: self.max_tags, removed: self.marks.len() })
    }

    /// The tag of this name, or a lookup of it. `make` gets the mark of a removed tag, otherwise 0,
    /// and the asker's lane.
    pub(super) fn find_or_look_up(
        &mut self,
        name: &BizTag,
        asker: Asker,
        make: impl FnOnce(u64, Lane) -> T,
    ) -> Result<Arc<T>, TableFull> {
        if let Some(tag) = self.get(name.as_str()) {
            return Ok(Arc::clone(tag));
        }
        if let Some(lookup) = self.lookups.join(name, asker) {
            return Ok(lookup);
        }
        self.check_room()?;
        if let Some(evicted) = self.lookups.make_room(asker)? {
            self.drop_unused_name(&evicted);
        }
        let mark = self.mark(name);
        self.order.insert(name.clone());
        Ok(self.lookups.insert(name, asker, |lane| make(mark, lane)))
    }

    /// A tag was removed. Once nothing of it is in use, a sweep keeps only its mark.
    pub(super) fn note_removed(&mut self) {
        self.removed += 1;
    }

    /// Replaces removed tags by their marks, while there is room for marks.
    fn sweep(&mut self) {
        self.removed = 0;
        let (marks, max_tags) = (&mut self.marks, self.max_tags);
        self.tags.retain(|(_, entry)| {
            if marks.len() >= max_tags {
                return true;
            }
            match entry.retire() {
                Some(mark) => {
                    marks.insert(entry.name().clone(), mark);
                    false
                }
                None => true,
            }
        });
    }

    /// Does the same for these names alone.
    pub(super) fn sweep_among(&mut self, names: &[BizTag]) {
        for name in names {
            if self.marks.len() >= self.max_tags {
                return;
            }
            if let Some(mark) = self.get(name.as_str()).and_then(|entry| entry.retire()) {
                self.remove(name);
                self.marks.insert(name.clone(), mark);
            }
        }
    }

    /// Takes over what is left of tags of past days.
    pub(super) fn remember_retired(&mut self, retired: RetiredDays) {
        self.retired = retired;
    }

    /// Where a retired tag of this name starts; 0 if there is none.
    pub(super) fn retired_floor(&self, name: &str) -> u64 {
        self.retired.floor_of(name)
    }

    /// Lets go of a tag or a mark of a past day, unless `leave` refuses or there is no room for one more
    /// series. Returns what is left of it: its mark, or `base` if that is higher.
    pub(super) fn retire(
        &mut self,
        name: &BizTag,
        base: u64,
        leave: impl FnOnce(&T) -> Option<u64>,
    ) -> Option<RetiredSeries> {
        let (series, through) = series_of(name.as_str())?;
        if !self.retired.knows(series) && self.retired.len() >= self.max_tags {
            return None;
        }
        let mark = match self.get(name.as_str()) {
            Some(tag) => leave(tag)?,
            // A lookup has the mark too, and may be about to lease.
            None if self.lookups.get(name.as_str()).is_some() => return None,
            None => self.marks.get(name).copied()?,
        };
        self.remove(name);
        self.marks.remove(name);
        self.order.remove(name);
        let left = RetiredSeries { through, floor: mark.max(base) };
        self.retired.add(series, left);
        Some(left)
    }

    /// The next names after one, in byte order: of tags, lookups and marks.
    pub(super) fn names_after(&self, after: &str, most: usize) -> Vec<BizTag> {
        let after = (Bound::Excluded(after), Bound::Unbounded);
        self.order.range::<str, _>(after).take(most).cloned().collect()
    }

    /// Forgets the name of an evicted lookup, unless it is also that of a tag or a mark.
    fn drop_unused_name(&mut self, name: &BizTag) {
        if self.get(name.as_str()).is_none() && !self.marks.contains_key(name) {
            self.order.remove(name);
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
