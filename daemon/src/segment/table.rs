//! Which names memory keeps: tags of which this host knows a high-water mark, names that are only
//! being looked up, and the marks of tags that were removed. Plain bookkeeping: no clock, no IO.
//!
//! A lookup turns into a tag only when the store has given a range. Until then it may be evicted,
//! and whoever asks for many names evicts their own. A mark is never forgotten, since uniqueness
//! needs it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::ids::BizTag;

/// Names that are looked up at the same time, of all askers. One asker may hold as many of them as
/// are left, so there is always room for others.
const MOST_LOOKUPS: usize = 10_000;

/// Lookups that are tried for eviction, the oldest first, before a new one is refused. Those that
/// somebody waits for stay, and trying them all would make each refusal slower than the last.
const EVICTION_TRIES: usize = 8;

/// The hash is a fast one, since every request may look a name up; it is keyed at random, so whoever
/// chooses the names can at most slow this host's own requests down.
type Map<T> = HashMap<BizTag, T, foldhash::quality::RandomState>;

/// Whoever asks for names; the table only compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker(pub u32);

/// Turns at the store for the lookups of one asker: only so many of them queue with those of others.
pub(super) type Lane = Arc<Semaphore>;

/// What the table has to know of an entry.
pub(super) trait Entry {
    /// Gives the entry up if it is a lookup that nobody waits for and that is not under way.
    fn evict(&self) -> bool;

    /// Gives the entry up if it is a removed tag with nothing left, and returns its high-water mark.
    fn retire(&self) -> Option<u64>;

    /// Someone with a shorter queue asks for the same name: queue there.
    fn hasten(&self, lane: &Lane);
}

/// Why there is no place for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// There are this many tags, and the marks of `removed` ones besides.
    Tags {
        /// Highest number of tags, and of marks.
        limit: usize,
        /// Marks of removed tags.
        removed: usize,
    },
    /// The asker waits for this many names already.
    Lookups(usize),
}

#[derive(Debug)]
struct Lookup<T> {
    entry: Arc<T>,
    asker: Asker,
}

#[derive(Debug)]
struct Asking<T> {
    lane: Lane,
    count: usize,
    /// Its lookups, the oldest first, and entries that are none any more.
    queue: VecDeque<(BizTag, Arc<T>)>,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    max_tags: usize,
    /// Turns that the lane of one asker has.
    turns: usize,
    tags: Map<Arc<T>>,
    lookups: Map<Lookup<T>>,
    askers: HashMap<Asker, Asking<T>>,
    /// The high-water marks of removed tags, never more than `max_tags`.
    marks: Map<u64>,
    /// The names of all of these, so that a walk can let go of the table between two pages.
    order: BTreeSet<BizTag>,
    /// Tags that were removed since the table was last swept.
    removed: usize,
}

impl<T: Entry> Table<T> {
    pub(super) fn new(max_tags: usize, turns: usize) -> Self {
        Self {
            max_tags,
            turns,
            tags: Map::default(),
            lookups: Map::default(),
            askers: HashMap::new(),
            marks: Map::default(),
            order: BTreeSet::new(),
            removed: 0,
        }
    }

    /// The tag of this name.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.tags.get(name)
    }

    /// The tag of this name, or whoever looks for it.
    pub(super) fn get_any(&self, name: &str) -> Option<&Arc<T>> {
        self.get(name).or_else(|| Some(&self.lookups.get(name)?.entry))
    }

    /// The high-water mark of a removed tag, otherwise 0.
    pub(super) fn mark(&self, name: &BizTag) -> u64 {
        self.marks.get(name).copied().unwrap_or(0)
    }

    /// How many tags there are.
    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    /// All tags.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.tags.values()
    }

    /// All lookups.
    pub(super) fn lookups(&self) -> impl Iterator<Item = &Arc<T>> {
        self.lookups.values().map(|lookup| &lookup.entry)
    }

    /// Keeps a tag that has a high-water mark. It takes the place of its lookup and of its mark.
    pub(super) fn insert(&mut self, name: BizTag, entry: Arc<T>) {
        self.marks.remove(&name);
        self.drop_lookup(&name);
        self.order.insert(name.clone());
        self.tags.insert(name, entry);
    }

    /// Whether one more tag would be too many.
    pub(super) fn is_full(&mut self) -> Result<(), Full> {
        if self.tags.len() >= self.max_tags && self.removed > 0 {
            self.sweep();
        }
        if self.tags.len() < self.max_tags {
            return Ok(());
        }
        Err(Full::Tags { limit: self.max_tags, removed: self.marks.len() })
    }

    /// The tag of this name, or a lookup of it. `make` gets the mark of a removed tag, otherwise 0,
    /// and the asker's lane.
    pub(super) fn find_or_look_up(
        &mut self,
        name: &BizTag,
        asker: Asker,
        make: impl FnOnce(u64, Lane) -> T,
    ) -> Result<Arc<T>, Full> {
        if let Some(tag) = self.tags.get(name) {
            return Ok(Arc::clone(tag));
        }
        if let Some(lookup) = self.lookups.get(name) {
            if self.count(asker) < self.count(lookup.asker) {
                let lane = self.askers.get(&asker).map(|asking| Arc::clone(&asking.lane));
                lookup.entry.hasten(&lane.unwrap_or_else(|| self.new_lane()));
            }
            return Ok(Arc::clone(&lookup.entry));
        }
        self.is_full()?;
        self.make_room(asker)?;
        let (lane, mark) = (self.new_lane(), self.mark(name));
        let asking = self.askers.entry(asker).or_insert_with(|| Asking {
            lane,
            count: 0,
            queue: VecDeque::new(),
        });
        let entry = Arc::new(make(mark, Arc::clone(&asking.lane)));
        asking.count += 1;
        asking.queue.push_back((name.clone(), Arc::clone(&entry)));
        // Lookups that found their tag leave their item behind.
        if asking.queue.len() > 2 * asking.count + EVICTION_TRIES {
            let lookups = &self.lookups;
            asking.queue.retain(|(name, entry)| is_of(lookups, name, entry));
            asking.queue.push_back((name.clone(), Arc::clone(&entry)));
        }
        let lookup = Lookup { entry: Arc::clone(&entry), asker };
        self.order.insert(name.clone());
        self.lookups.insert(name.clone(), lookup);
        Ok(entry)
    }

    /// A tag was removed. Once nothing of it is in use, only its mark is kept.
    pub(super) fn note_removed(&mut self) {
        self.removed += 1;
    }

    /// Keeps only the marks of tags that were removed, as far as there is room for marks.
    pub(super) fn sweep(&mut self) {
        self.removed = 0;
        let (marks, max_tags) = (&mut self.marks, self.max_tags);
        self.tags.retain(|name, entry| {
            if marks.len() >= max_tags {
                return true;
            }
            match entry.retire() {
                Some(mark) => {
                    marks.insert(name.clone(), mark);
                    false
                }
                None => true,
            }
        });
    }

    /// As [`Self::sweep`], for these names alone.
    pub(super) fn sweep_among(&mut self, names: &[BizTag]) {
        for name in names {
            if self.marks.len() >= self.max_tags {
                return;
            }
            if let Some(mark) = self.tags.get(name).and_then(|entry| entry.retire()) {
                self.tags.remove(name);
                self.marks.insert(name.clone(), mark);
            }
        }
    }

    /// The next names after one, in byte order: of tags, lookups and marks.
    pub(super) fn names_after(&self, after: &str, most: usize) -> Vec<BizTag> {
        let after = (Bound::Excluded(after), Bound::Unbounded);
        self.order.range::<str, _>(after).take(most).cloned().collect()
    }

    fn new_lane(&self) -> Lane {
        Arc::new(Semaphore::new(self.turns))
    }

    fn count(&self, asker: Asker) -> usize {
        self.askers.get(&asker).map_or(0, |asking| asking.count)
    }

    fn make_room(&mut self, asker: Asker) -> Result<(), Full> {
        let own = self.count(asker);
        if own < MOST_LOOKUPS.saturating_sub(self.lookups.len()) || self.evict_one_of(asker) {
            return Ok(());
        }
        // Many askers have taken a share each, and none is left.
        let most = self.askers.iter().max_by_key(|(_, asking)| asking.count);
        match most.map(|(other, asking)| (*other, asking.count)) {
            Some((other, count)) if count > own + 1 && self.evict_one_of(other) => Ok(()),
            _ => Err(Full::Lookups(own)),
        }
    }

    fn evict_one_of(&mut self, asker: Asker) -> bool {
        let Some(asking) = self.askers.get_mut(&asker) else { return false };
        for _ in 0..EVICTION_TRIES {
            let Some((name, entry)) = asking.queue.pop_front() else { break };
            if !is_of(&self.lookups, &name, &entry) {
                continue;
            }
            if entry.evict() {
                self.drop_lookup(&name);
                return true;
            }
            asking.queue.push_back((name, entry));
        }
        false
    }

    fn drop_lookup(&mut self, name: &BizTag) {
        let Some(lookup) = self.lookups.remove(name) else { return };
        if !self.tags.contains_key(name) && !self.marks.contains_key(name) {
            self.order.remove(name);
        }
        if let Some(asking) = self.askers.get_mut(&lookup.asker) {
            asking.count = asking.count.saturating_sub(1);
            if asking.count == 0 {
                self.askers.remove(&lookup.asker);
            }
        }
    }
}

fn is_of<T>(lookups: &Map<Lookup<T>>, name: &BizTag, entry: &Arc<T>) -> bool {
    lookups.get(name).is_some_and(|lookup| Arc::ptr_eq(&lookup.entry, entry))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// In use until its test says otherwise.
    #[derive(Default)]
    struct Fake {
        idle: Cell<bool>,
        mark: Cell<u64>,
        gone: Cell<bool>,
        hastened: Cell<bool>,
    }

    impl Entry for Fake {
        fn evict(&self) -> bool {
            self.idle.get()
        }

        fn retire(&self) -> Option<u64> {
            self.gone.get().then(|| self.mark.get())
        }

        fn hasten(&self, _: &Lane) {
            self.hastened.set(true);
        }
    }

    const EVE: Asker = Asker(666);
    const BOB: Asker = Asker(1000);

    fn name(text: &str) -> BizTag {
        BizTag::new(text).unwrap()
    }

    fn fake(mark: u64, _: Lane) -> Fake {
        Fake { mark: Cell::new(mark), ..Fake::default() }
    }

    fn table(max_tags: usize) -> Table<Fake> {
        Table::new(max_tags, 1)
    }

    fn ask(table: &mut Table<Fake>, text: &str, asker: Asker) -> Result<Arc<Fake>, Full> {
        table.find_or_look_up(&name(text), asker, fake)
    }

    /// As if the store had given it a range.
    fn add_tag(table: &mut Table<Fake>, text: &str, mark: u64) -> Arc<Fake> {
        let tag = ask(table, text, BOB).unwrap();
        tag.mark.set(mark);
        table.insert(name(text), Arc::clone(&tag));
        tag
    }

    #[test]
    fn names_that_are_only_asked_for_take_no_place_of_a_tag() {
        let mut table = table(2);
        for nth in 0..100_000 {
            let Ok(lookup) = ask(&mut table, &format!("new {nth}"), EVE) else { continue };
            lookup.idle.set(true);
        }
        assert!(table.lookups.len() <= MOST_LOOKUPS / 2, "{}", table.lookups.len());
        add_tag(&mut table, "orders", 1);
        add_tag(&mut table, "users", 1);
        assert_eq!(
            ask(&mut table, "third", BOB).err(),
            Some(Full::Tags { limit: 2, removed: 0 }),
            "real exhaustion is one"
        );
        assert!(ask(&mut table, "orders", EVE).is_ok());
    }

    #[test]
    fn whoever_asks_for_many_names_evicts_their_own_and_keeps_those_that_are_waited_for() {
        let mut table = table(10);
        let waited_for = ask(&mut table, "bob's", BOB).unwrap();
        let first = ask(&mut table, "eve's first", EVE).unwrap();
        for nth in 0..2 * MOST_LOOKUPS {
            ask(&mut table, &format!("new {nth}"), EVE).unwrap().idle.set(true);
        }
        assert!(Arc::ptr_eq(&waited_for, &ask(&mut table, "bob's", BOB).unwrap()));
        assert!(Arc::ptr_eq(&first, &ask(&mut table, "eve's first", EVE).unwrap()));
        assert_eq!(table.count(EVE) + table.count(BOB), table.lookups.len());
        let asking = &table.askers[&EVE];
        assert!(asking.queue.len() <= 2 * asking.count + EVICTION_TRIES);
    }

    #[test]
    fn an_asker_who_waits_for_many_names_leaves_room_for_any_number_of_others() {
        let mut table = table(10);
        let held = |table: &mut Table<Fake>, asker: Asker| {
            let most = 2 * MOST_LOOKUPS;
            (0..most)
                .take_while(|nth| ask(table, &format!("{asker:?} {nth}"), asker).is_ok())
                .count()
        };
        assert_eq!(held(&mut table, EVE), MOST_LOOKUPS / 2);
        assert_eq!(ask(&mut table, "one more", EVE).err(), Some(Full::Lookups(MOST_LOOKUPS / 2)));
        for other in 0..5 {
            assert!(held(&mut table, Asker(other)) > 0, "asker {other}");
        }
        // Once nobody waits for them, they are in nobody's way.
        for lookup in table.lookups() {
            lookup.idle.set(true);
        }
        for other in 5..1000 {
            assert!(ask(&mut table, &format!("name of {other}"), Asker(other)).is_ok());
        }
        assert!(table.lookups.len() <= MOST_LOOKUPS);
    }

    #[test]
    fn a_name_that_somebody_else_asks_for_is_looked_up_in_the_shorter_queue() {
        let mut table = table(10);
        for nth in 0..10 {
            ask(&mut table, &format!("new {nth}"), EVE).unwrap();
        }
        ask(&mut table, "new 3", EVE).unwrap();
        assert!(table.lookups().all(|lookup| !lookup.hastened.get()));
        assert!(ask(&mut table, "new 3", BOB).unwrap().hastened.get());
    }

    #[test]
    fn removed_tags_take_no_place_and_their_marks_are_kept() {
        let mut table = table(2);
        for (nth, mark) in [(0, 500), (1, 700)] {
            add_tag(&mut table, &format!("old {nth}"), mark).gone.set(true);
            table.note_removed();
        }
        add_tag(&mut table, "orders", 1);
        assert!(table.get("old 0").is_none() && table.tags.len() == 1);
        assert_eq!(ask(&mut table, "old 1", BOB).unwrap().mark.get(), 700, "it goes on above");
        assert_eq!(table.mark(&name("old 0")), 500);
        // A lookup that found nothing leaves the mark where it is.
        ask(&mut table, "old 1", BOB).unwrap().idle.set(true);
        assert!(table.evict_one_of(BOB));
        assert_eq!(table.marks.len(), 2);
    }

    #[test]
    fn pages_of_names_are_in_byte_order_and_hold_each_name_once_whatever_became_of_it() {
        let mut table = table(100);
        let removed = add_tag(&mut table, "b", 7);
        add_tag(&mut table, "é", 1);
        for name in ["a", "c", "b"] {
            ask(&mut table, name, Asker(1)).unwrap().idle.set(true);
        }
        let names = |table: &Table<Fake>, after: &str| -> Vec<String> {
            let names = table.names_after(after, 3);
            names.iter().map(|name| name.as_str().to_owned()).collect()
        };
        assert_eq!(names(&table, ""), ["a", "b", "c"]);
        assert_eq!(names(&table, "c"), ["é"]);
        removed.gone.set(true);
        table.sweep_among(&[name("a"), name("b"), name("é")]);
        assert_eq!((table.len(), table.mark(&name("b"))), (1, 7));
        assert_eq!(names(&table, "a"), ["b", "c", "é"]);
        // A lookup that was evicted leaves no name behind.
        assert!(table.evict_one_of(Asker(1)));
        assert_eq!(names(&table, ""), ["b", "c", "é"]);
        add_tag(&mut table, "b", 9);
        add_tag(&mut table, "c", 9);
        assert_eq!(names(&table, ""), ["b", "c", "é"]);
    }

    #[test]
    fn a_mark_is_not_forgotten_for_want_of_room_rather_new_tags_are_refused() {
        let mut table = table(2);
        for nth in 0..4 {
            add_tag(&mut table, &format!("old {nth}"), nth + 1).gone.set(true);
            table.note_removed();
        }
        let full = ask(&mut table, "orders", BOB).err();
        assert_eq!(full, Some(Full::Tags { limit: 2, removed: 2 }));
        let mut marks: Vec<_> = table.marks.values().copied().collect();
        marks.extend(table.values().map(|tag| tag.mark.get()));
        marks.sort_unstable();
        assert_eq!(marks, [1, 2, 3, 4]);
    }
}
