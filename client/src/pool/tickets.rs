//! The lock-free core of a pool: callers take tickets from one counter, and records say which ticket
//! stands for which ID. No clock, no waiting, no system call.
//!
//! Why no ID comes twice: the counter never falls, so no two callers have one ticket. A record maps
//! tickets `from..end` to IDs; records do not overlap, in tickets because each begins at or above the
//! end of the one before, in IDs because the daemon leases each ID once. A caller uses a record only if
//! it has read all of it from one version ([`Record::read`]) and its ticket is inside.
//!
//! A caller without a record for its ticket has burned the ticket. Records therefore begin at the
//! counter if it is past the last end: burned tickets stand for no ID. Only a ticket that is burned
//! while a record is being published can cost an ID; the statistics count it as lost.
//!
//! All bytes zero is an empty, valid value: that is what the kernel leaves of it in the child of a
//! `fork`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use Ordering::{Acquire, Relaxed, Release};

/// Records that can be published and not used up. Snowflake IDs need most: one for each millisecond.
/// What does not fit is published once there is room.
#[cfg(not(any(loom, miri)))]
pub(super) const RECORDS: usize = 256;
#[cfg(loom)]
pub(super) const RECORDS: usize = 2;
/// Few, so that each place is used often: Miri is slow.
#[cfg(miri)]
pub(super) const RECORDS: usize = 8;

/// Keeps a field on cache lines of its own. Processors fetch lines in pairs.
#[cfg_attr(not(loom), repr(align(128)))]
#[derive(Debug, Default)]
struct Apart<T>(T);

/// The tickets of one pool in one process.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Tickets {
    /// The next ticket. Every caller writes it.
    cursor: Apart<AtomicU64>,
    /// A copy of the record in use. Callers read it, and write it when they come to the next one.
    /// Empty in a pool whose IDs age.
    front: Apart<Record>,
    /// The same in a pool whose IDs age. It is apart, so that the callers of any other pool, who go the
    /// short way, need not ask which kind theirs is.
    aging_front: Record,
    /// The end of the newest record that was ever in front; [`BUSY`] while a caller writes one of the two.
    /// Nobody waits for it. It never falls, so no record comes to the front twice: a caller that reads the
    /// same end before and after the rest has read one version.
    front_newest: AtomicU64,
    /// The number of records ever published.
    published: AtomicU64,
    /// The end of the last record.
    end: AtomicU64,
    /// Tickets without a record below `end`: no ID stands behind them.
    holes: AtomicU64,
    /// Tickets that their callers could not use.
    burned: AtomicU64,
    /// Tickets whose IDs were dropped because they were too old.
    expired: AtomicU64,
    ring: Ring,
}

/// In place of an end, which no pool reaches.
const BUSY: u64 = u64::MAX;

#[derive(Debug)]
#[repr(transparent)]
struct Ring([Record; RECORDS]);

/// Tickets `from..end` stand for the IDs `ticket + shift`. `end` is 0 while the record is empty or
/// being written. No two records of a pool have the same `end`, and each is written to a place once, so
/// it is also the version.
#[derive(Debug, Default)]
#[repr(C)]
struct Record {
    end: AtomicU64,
    from: AtomicU64,
    shift: AtomicU64,
    born: AtomicU64,
}

/// A record as one caller has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    from: u64,
    end: u64,
    shift: u64,
    born: u64,
}

/// IDs in a row, and when they were requested, on the pool's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) born: u64,
}

/// What became of one attempt to take an ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// From the record in use.
    Id(u64),
    /// The first of a record, as this caller was the first to notice: a moment to think of a refill.
    IdOfNext(u64),
    /// Nothing is published.
    Nothing,
}

/// What the counters say. Exact while nobody takes or publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// IDs that were published and not taken.
    pub(super) left: u64,
    /// IDs that callers got.
    pub(super) taken: u64,
    /// IDs that nobody got: burned during a publication, or too old.
    pub(super) lost: u64,
}

impl Record {
    /// All of the record, if nobody writes it at this moment.
    #[inline(always)]
    fn read(&self) -> Option<Mapping> {
        // Acquire: whoever sees this end sees what was written before it.
        let end = self.end.load(Acquire);
        let (from, shift) = (self.from.load(Relaxed), self.shift.load(Relaxed));
        let born = self.born.load(Relaxed);
        // With the fence in `write`: if one of the loads above has seen a later version, the load
        // below does not see the earlier end any more.
        fence(Acquire);
        let same = self.end.load(Relaxed) == end;
        (same && end != 0).then_some(Mapping { from, end, shift, born })
    }

    /// What a caller needs of the record in use: its end, and what to add to a ticket. As [`Self::read`].
    #[inline(always)]
    fn read_shift(&self) -> Option<(u64, u64)> {
        let end = self.end.load(Acquire);
        let shift = self.shift.load(Relaxed);
        fence(Acquire);
        let same = self.end.load(Relaxed) == end;
        (same && end != 0).then_some((end, shift))
    }

    /// Only one caller at a time.
    fn write(&self, to: Mapping) {
        self.end.store(0, Relaxed);
        fence(Release);
        self.from.store(to.from, Relaxed);
        self.shift.store(to.shift, Relaxed);
        self.born.store(to.born, Relaxed);
        self.end.store(to.end, Release);
    }
}

impl Mapping {
    #[inline(always)]
    fn id(&self, ticket: u64) -> u64 {
        ticket.wrapping_add(self.shift)
    }

    fn has(&self, ticket: u64) -> bool {
        self.from <= ticket && ticket < self.end
    }
}

impl Ring {
    /// The place of the record with this number.
    fn place(&self, number: u64) -> Option<&Record> {
        self.0.get(number as usize % RECORDS)
    }
}

impl Tickets {
    /// Takes the next ID. Wait-free: at most one step per published record.
    #[inline(always)]
    pub(super) fn take(&self) -> Taken {
        // Read before the ticket is taken. The record in `front` was reached by some ticket, and this
        // caller's comes later, so it is not below `from`.
        let Some((end, shift)) = self.front.0.read_shift() else { return Taken::Nothing };
        let ticket = self.cursor.0.fetch_add(1, Relaxed);
        if ticket < end { Taken::Id(ticket.wrapping_add(shift)) } else { self.find(ticket) }
    }

    /// Takes the next ID where [`Self::take`] has found nothing in front. Looks whether there is anything
    /// before it takes a ticket, so that callers of an empty pool burn none.
    pub(super) fn take_slowly(&self) -> Taken {
        if self.left() == 0 {
            return Taken::Nothing;
        }
        self.find(self.cursor.0.fetch_add(1, Relaxed))
    }

    /// Takes the next ID that is not older than `oldest` says, which is asked after the ticket is
    /// taken. Drops the records that are too old.
    pub(super) fn take_fresh(&self, oldest: impl Fn() -> u64) -> Taken {
        // Each round but the last uses up a record.
        for _ in 0..RECORDS {
            if self.left() == 0 {
                return Taken::Nothing;
            }
            let front = self.aging_front.read();
            let ticket = self.cursor.0.fetch_add(1, Relaxed);
            let (mapping, next) = match front.filter(|front| ticket < front.end) {
                Some(front) => (front, false),
                None => match self.mapping_of(ticket) {
                    Some(mapping) => {
                        self.bring_to_front(&self.aging_front, mapping);
                        (mapping, true)
                    }
                    None => {
                        self.burned.fetch_add(1, Relaxed);
                        return Taken::Nothing;
                    }
                },
            };
            if mapping.born >= oldest() {
                let id = mapping.id(ticket);
                return if next { Taken::IdOfNext(id) } else { Taken::Id(id) };
            }
            let reached = self.cursor.0.fetch_max(mapping.end, Relaxed);
            self.expired.fetch_add(1 + mapping.end.saturating_sub(reached), Relaxed);
        }
        Taken::Nothing
    }

    /// Takes up to `count` IDs, fewer if fewer are there, and passes them on in their order. Returns
    /// how many.
    pub(super) fn take_many(&self, count: u64, mut pass: impl FnMut(Lease)) -> u64 {
        let count = count.min(self.left());
        if count == 0 {
            return 0;
        }
        let first = self.cursor.0.fetch_add(count, Relaxed);
        let end = first.saturating_add(count);
        let mut ticket = first;
        while ticket < end {
            let Some(mapping) = self.mapping_of(ticket) else {
                self.burned.fetch_add(end - ticket, Relaxed);
                break;
            };
            let here = mapping.end.min(end) - ticket;
            pass(Lease { first: mapping.id(ticket), count: here, born: mapping.born });
            ticket += here;
        }
        ticket - first
    }

    /// Adds IDs behind all others. `false`: there is no room until callers have used up a record.
    /// Only one caller at a time.
    pub(super) fn publish(&self, lease: Lease) -> bool {
        let number = self.published.load(Relaxed);
        let Some(place) = self.ring.place(number) else { return false };
        // Adds nothing, but reads the latest value: with an older one, more burned tickets would get IDs.
        let cursor = self.cursor.0.fetch_add(0, Relaxed);
        if place.end.load(Relaxed) > cursor {
            return false;
        }
        let last_end = self.end.load(Relaxed);
        let from = last_end.max(cursor);
        let Some(end) = from.checked_add(lease.count) else { return false };
        self.holes.fetch_add(from - last_end, Relaxed);
        place.write(Mapping { from, end, shift: lease.first.wrapping_sub(from), born: lease.born });
        self.published.store(number + 1, Release);
        // Last: whoever sees the end sees the number, and finds the record.
        self.end.store(end, Release);
        true
    }

    /// IDs that are published and not taken. Callers may take them at any moment.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.end.load(Acquire).saturating_sub(self.cursor.0.load(Relaxed))
    }

    pub(super) fn tally(&self) -> Tally {
        let (end, cursor) = (self.end.load(Acquire), self.cursor.0.load(Relaxed));
        let (holes, burned) = (self.holes.load(Relaxed), self.burned.load(Relaxed));
        let expired = self.expired.load(Relaxed);
        let passed = cursor.min(end).saturating_sub(holes);
        // Every ticket without a record was burned, so what was burned beyond those had an ID.
        let lost = burned.saturating_sub(holes + cursor.saturating_sub(end)) + expired;
        Tally { left: end.saturating_sub(cursor), taken: passed.saturating_sub(lost), lost }
    }

    /// The ID of a ticket past the record in front.
    #[cold]
    fn find(&self, ticket: u64) -> Taken {
        match self.mapping_of(ticket) {
            Some(mapping) => {
                self.bring_to_front(&self.front.0, mapping);
                Taken::IdOfNext(mapping.id(ticket))
            }
            None => {
                self.burned.fetch_add(1, Relaxed);
                // Callers look before they take another ticket.
                self.clear_front(ticket);
                Taken::Nothing
            }
        }
    }

    /// Looks from the newest record to the oldest.
    fn mapping_of(&self, ticket: u64) -> Option<Mapping> {
        // If it is out of date, the ticket is burned. Each record vouches for itself.
        let published = self.published.load(Acquire);
        let oldest = published.saturating_sub(RECORDS as u64);
        for number in (oldest..published).rev() {
            // A place that is being written has a record newer than those of this search.
            let Some(mapping) = self.ring.place(number)?.read() else { continue };
            if mapping.has(ticket) {
                return Some(mapping);
            }
        }
        None
    }

    /// Shows a record to callers to come. A caller of an earlier one, which may be late, changes nothing.
    fn bring_to_front(&self, front: &Record, mapping: Mapping) {
        self.change_front(|newest| {
            if mapping.end > newest {
                front.write(mapping);
            }
            newest.max(mapping.end)
        });
    }

    /// Empties the front, unless it has come to a record past this ticket by now.
    fn clear_front(&self, ticket: u64) {
        self.change_front(|newest| {
            if newest <= ticket {
                self.front.0.end.store(0, Relaxed);
            }
            newest
        });
    }

    /// Changes what callers to come see first: `change` gets the newest end in front, and returns it.
    /// Skipped if another caller does so at this moment.
    fn change_front(&self, change: impl FnOnce(u64) -> u64) {
        let newest = self.front_newest.swap(BUSY, Acquire);
        if newest != BUSY {
            self.front_newest.store(change(newest), Release);
        }
    }

    /// An empty pool outside a wiped page, for tests.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self {
            cursor: Apart::default(),
            front: Apart::default(),
            aging_front: Record::default(),
            front_newest: AtomicU64::new(0),
            published: AtomicU64::new(0),
            end: AtomicU64::new(0),
            holes: AtomicU64::new(0),
            burned: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            ring: Ring(std::array::from_fn(|_| Record::default())),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tickets_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "tickets_loom.rs"]
mod loom_tests;
