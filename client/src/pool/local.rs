//! A handle for one thread, with a range of its own: taking an ID is an addition to memory that no
//! other thread writes.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Pool;
use super::tickets::Lease;
use crate::error::Error;
use crate::fork::{ProcessMark, Wipeable, WipedPage};

/// A batch is this part of a chunk, divided by the number of local handles.
const PART: u64 = 8;

/// What a handle holds, in a page that a fork wipes: the child's copy of a handle is empty. Only one
/// thread uses it, so the operations are plain loads and stores.
#[derive(Debug)]
#[repr(C)]
struct LocalRange {
    next: AtomicU64,
    /// Where the range ends; 0 if its IDs age, so that only those callers look at the time.
    end: AtomicU64,
    /// Where the range ends in any case.
    real_end: AtomicU64,
    born: AtomicU64,
    /// The IDs that the handle has taken from the pool for this range.
    batch: AtomicU64,
}

// SAFETY: all fields are atomic, and all zero is an empty range.
#[expect(unsafe_code, reason = "the promise of the trait, given in the line above")]
unsafe impl Wipeable for LocalRange {}

/// A handle of a [`Pool`] for one thread. It promises that its IDs are unique, not that they rise: it
/// may get a range that another handle has given back. What it has not used goes back to the pool when
/// it is dropped.
///
/// It holds a part of a chunk, which the pool makes smaller the more handles there are.
#[derive(Debug)]
pub struct LocalPool {
    range: WipedPage<LocalRange>,
    pool: Pool,
    /// The process whose pool counts this handle.
    counted_in: Cell<ProcessMark>,
    /// Not `Send` and not `Sync`.
    one_thread: PhantomData<*const ()>,
}

impl LocalPool {
    pub(super) fn new(pool: Pool) -> std::io::Result<Self> {
        let range = WipedPage::new()?;
        pool.supply().counters.locals.fetch_add(1, Relaxed);
        let counted_in = Cell::new(ProcessMark::current());
        Ok(Self { range, pool, counted_in, one_thread: PhantomData })
    }

    /// Takes an ID if one is there, without waiting. `None`: a refill is under way.
    #[inline]
    pub fn try_next(&self) -> Option<u64> {
        match self.take() {
            Some(id) => Some(id),
            None => self.try_slowly(),
        }
    }

    /// The short way: the next ID of the range.
    #[inline(always)]
    fn take(&self) -> Option<u64> {
        let range = self.range.get();
        let next = range.next.load(Relaxed);
        let is_there = next < range.end.load(Relaxed);
        if is_there {
            range.next.store(next + 1, Relaxed);
        }
        is_there.then_some(next)
    }

    /// Takes an ID, and waits for one at most as long as the timeout of the pool's options.
    ///
    /// # Errors
    /// Those of [`Pool::next`].
    #[inline]
    pub fn next(&self) -> Result<u64, Error> {
        match self.take() {
            Some(id) => Ok(id),
            None => self.next_slowly(),
        }
    }

    #[cold]
    fn next_slowly(&self) -> Result<u64, Error> {
        self.next_within(self.pool.timeout())
    }

    /// As [`Self::next`], with another timeout.
    ///
    /// # Errors
    /// Those of [`Pool::next`].
    pub fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
        self.pool.wait_for(crate::options::cut(timeout), || self.try_next())
    }

    /// The rest of [`Self::try_next`]: IDs that age, or the end of the range.
    #[cold]
    fn try_slowly(&self) -> Option<u64> {
        let range = self.range.get();
        let next = range.next.load(Relaxed);
        if next < range.real_end.load(Relaxed) && range.born.load(Relaxed) >= self.pool.oldest() {
            range.next.store(next + 1, Relaxed);
            return Some(next);
        }
        self.next_of_pool()
    }

    /// Takes a batch from the pool, and the first ID of it.
    #[cold]
    fn next_of_pool(&self) -> Option<u64> {
        self.let_go(true);
        let supply = self.pool.supply();
        if !self.counted_in.get().is_current() {
            self.counted_in.set(ProcessMark::current());
            supply.counters.locals.fetch_add(1, Relaxed);
        }
        // A range that another handle gave back is older than those of the pool.
        while let Some(lease) = supply.take_returned() {
            if lease.born >= self.pool.oldest() {
                return Some(self.begin(lease));
            }
            supply.lose(lease.count);
        }
        let (mut mine, mut taken) = (None, 0);
        let reserved = self.reserve();
        let outdated = self.pool.take_leases(reserved, |lease| {
            taken += lease.count;
            if mine.is_none() {
                mine = Some(lease);
            } else {
                supply.give_back(lease);
            }
        });
        supply.counters.lent.fetch_sub(reserved - taken, Relaxed);
        // The next record may be too old as well. Taking one ID drops those that are.
        let id = match mine {
            Some(lease) => Some(self.begin(lease)),
            None if outdated => self.pool.take_fresh(),
            None => None,
        };
        self.pool.ask_if_low();
        id
    }

    /// Counts as lent what this handle may take from the pool, and returns how many IDs that is. Handles
    /// that took much and use little leave others less: all together hold at most half of the largest
    /// chunk, so that the pool keeps its promise. Before they are taken: two handles must not both take
    /// the last of it, and the refill thread must not miss IDs that are on their way.
    fn reserve(&self) -> u64 {
        let counters = &self.pool.supply().counters;
        let handles = counters.locals.load(Relaxed).max(1);
        let wanted = (counters.chunk.load(Relaxed) / (PART * handles)).max(1);
        let lent = counters.lent.fetch_add(wanted, Relaxed);
        let room = (self.pool.shared().settings.rule.max / 2).saturating_sub(lent);
        let reserved = wanted.min(room).max(1);
        counters.lent.fetch_sub(wanted - reserved, Relaxed);
        reserved
    }

    fn begin(&self, lease: Lease) -> u64 {
        let range = self.range.get();
        range.born.store(lease.born, Relaxed);
        range.batch.store(lease.count, Relaxed);
        let end = lease.first + lease.count;
        range.real_end.store(end, Relaxed);
        range.end.store(if self.pool.ages { 0 } else { end }, Relaxed);
        range.next.store(lease.first + 1, Relaxed);
        lease.first
    }

    /// Ends the present range. The rest, which is too old if there is one, is lost or goes back.
    fn let_go(&self, too_old: bool) {
        let range = self.range.get();
        let batch = range.batch.swap(0, Relaxed);
        if batch == 0 {
            return;
        }
        let next = range.next.load(Relaxed);
        range.end.store(0, Relaxed);
        let rest = range.real_end.swap(0, Relaxed).saturating_sub(next);
        let supply = self.pool.supply();
        supply.counters.lent.fetch_sub(batch - rest, Relaxed);
        if rest > 0 && too_old {
            supply.lose(rest);
        } else if rest > 0 {
            supply.give_back(Lease { first: next, count: rest, born: range.born.load(Relaxed) });
        }
    }
}

impl Drop for LocalPool {
    fn drop(&mut self) {
        self.let_go(false);
        // A child counts the handles that it has used.
        if self.counted_in.get().is_current() {
            self.pool.supply().counters.locals.fetch_sub(1, Relaxed);
        }
    }
}
