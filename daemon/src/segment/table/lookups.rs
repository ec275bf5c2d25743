//! Names that are being looked up, and the users that ask for them. Each asker has a share of the
//! lookups and a lane of its own at the store, so that one that asks for thousands of names holds
//! up nobody else. Plain bookkeeping.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Asker, Lane, Map, TableEntry, TableFull};
use crate::ids::BizTag;

/// How many names may be looked up at the same time, for all askers. One asker may hold as many of
/// them as are left, so there is always room for others.
pub(super) const MOST_LOOKUPS: usize = 10_000;

/// How many lookups to try to evict, the oldest first, before refusing a new one. A lookup that a
/// request waits for stays, and trying them all would make each refusal slower than the last.
pub(super) const EVICTION_TRIES: usize = 8;

#[derive(Debug)]
struct Lookup<T> {
    entry: Arc<T>,
    asker: Asker,
}

#[derive(Debug)]
struct AskerLookups<T> {
    lane: Lane,
    count: usize,
    /// The asker's lookups, the oldest first, and entries that no longer are lookups.
    queue: VecDeque<(BizTag, Arc<T>)>,
}

#[derive(Debug)]
pub(super) struct Lookups<T> {
    lane_permits: usize,
    lookups: Map<Lookup<T>>,
    askers: HashMap<Asker, AskerLookups<T>>,
}

impl<T: TableEntry> Lookups<T> {
    pub(super) fn new(lane_permits: usize) -> Self {
        Self { lane_permits, lookups: Map::default(), askers: HashMap::new() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<T>> {
        Some(&self.lookups.get(name)?.entry)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.lookups.values().map(|lookup| &lookup.entry)
    }

    /// The lookup of this name. It moves to the lane of `asker` if that has the shorter queue.
    pub(super) fn join(&self, name: &BizTag, asker: Asker) -> Option<Arc<T>> {
        let lookup = self.lookups.get(name)?;
        if self.count(asker) < self.count(lookup.asker) {
            let lane = self.askers.get(&asker).map(|own| Arc::clone(&own.lane));
            lookup.entry.hasten(&lane.unwrap_or_else(|| self.new_lane()));
        }
        Some(Arc::clone(&lookup.entry))
    }

    /// Makes room for one more lookup of `asker`. Returns the name that was evicted for it.
    pub(super) fn make_room(&mut self, asker: Asker) -> Result<Option<BizTag>, TableFull> {
        let own = self.count(asker);
        if own < MOST_LOOKUPS.saturating_sub(self.lookups.len()) {
            return Ok(None);
        }
        let mut evicted = self.evict_one_of(asker);
        if evicted.is_none() {
            // Many askers have taken a share each, and none is left.
            let most = self.askers.iter().max_by_key(|(_, lookups)| lookups.count);
            evicted = match most.map(|(other, lookups)| (*other, lookups.count)) {
                Some((other, count)) if count > own + 1 => self.evict_one_of(other),
                _ => None,
            };
        }
        evicted.map_or(Err(TableFull::Lookups(own)), |name| Ok(Some(name)))
    }

    /// Adds a lookup of `asker`, for which [`Self::make_room`] has made room.
    pub(super) fn insert(
        &mut self,
        name: &BizTag,
        asker: Asker,
        make: impl FnOnce(Lane) -> T,
    ) -> Arc<T> {
        let lane = self.new_lane();
        let own = self.askers.entry(asker).or_insert_with(|| AskerLookups {
            lane,
            count: 0,
            queue: VecDeque::new(),
        });
        let entry = Arc::new(make(Arc::clone(&own.lane)));
        own.count += 1;
        own.queue.push_back((name.clone(), Arc::clone(&entry)));
        // Lookups that found their tag leave their item behind.
        if own.queue.len() > 2 * own.count + EVICTION_TRIES {
            let lookups = &self.lookups;
            own.queue.retain(|(name, entry)| is_of(lookups, name, entry));
            own.queue.push_back((name.clone(), Arc::clone(&entry)));
        }
        self.lookups.insert(name.clone(), Lookup { entry: Arc::clone(&entry), asker });
        entry
    }

    /// Removes the lookup of this name, if there is one.
    pub(super) fn remove(&mut self, name: &BizTag) {
        let Some(lookup) = self.lookups.remove(name) else { return };
        if let Some(own) = self.askers.get_mut(&lookup.asker) {
            own.count = own.count.saturating_sub(1);
            if own.count == 0 {
                self.askers.remove(&lookup.asker);
            }
        }
    }

    /// Evicts one of the oldest lookups of `asker` and returns its name.
    pub(super) fn evict_one_of(&mut self, asker: Asker) -> Option<BizTag> {
        let own = self.askers.get_mut(&asker)?;
        for _ in 0..EVICTION_TRIES {
            let Some((name, entry)) = own.queue.pop_front() else { break };
            if !is_of(&self.lookups, &name, &entry) {
                continue;
            }
            if entry.evict() {
                self.remove(&name);
                return Some(name);
            }
            own.queue.push_back((name, entry));
        }
        None
    }

    fn new_lane(&self) -> Lane {
        Arc::new(Semaphore::new(self.lane_permits))
    }

    /// How many lookups `asker` has.
    fn count(&self, asker: Asker) -> usize {
        self.askers.get(&asker).map_or(0, |own| own.count)
    }

    /// The number of lookups, the number of `asker`, and the length of its queue.
    #[cfg(test)]
    pub(super) fn sizes(&self, asker: Asker) -> (usize, usize, usize) {
        let queue = self.askers.get(&asker).map_or(0, |own| own.queue.len());
        (self.lookups.len(), self.count(asker), queue)
    }
}

/// Whether `entry` is still the lookup of `name`.
fn is_of<T>(lookups: &Map<Lookup<T>>, name: &BizTag, entry: &Arc<T>) -> bool {
    lookups.get(name).is_some_and(|lookup| Arc::ptr_eq(&lookup.entry, entry))
}
