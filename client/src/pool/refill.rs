//! The refill thread: does what the plan says, by a blocking client, and tells those that wait.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use super::plan::{Due, Level, RefillPlan};
use super::shared::{Shared, Source, boot_ns};
use super::stats::PoolEvent;
use super::supply::{Failure, Supply};
use super::tickets::Lease;
use crate::blocking::Client;
use crate::error::Error;
use crate::fork::start_thread;
use crate::wire::Run;

/// Starts the thread.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    start_thread(c"leaf-pool", move || Refiller::new(&shared).run())
}

struct Refiller<'a> {
    client: Client,
    filler: Filler<'a>,
}

/// Everything but the client, which brings what is to be filled in.
struct Filler<'a> {
    shared: &'a Shared,
    supply: &'a Supply,
    plan: RefillPlan,
    /// What is leased and did not find room. Callers that come to another record ask, which makes room.
    backlog: VecDeque<Lease>,
}

impl<'a> Refiller<'a> {
    fn new(shared: &'a Shared) -> Self {
        let options = shared.settings.options.clone();
        let plan = RefillPlan::new(shared.settings.rule, options.backoff_range());
        let client = Client::noting(options, &shared.descriptor);
        Self {
            client,
            filler: Filler { shared, supply: shared.supply(), plan, backlog: VecDeque::new() },
        }
    }

    fn run(mut self) {
        // Set once a caller has asked, until the next attempt.
        let mut asked = false;
        self.filler.supply.refilled_here();
        loop {
            asked |= self.filler.supply.take_asked();
            // After the flag: whoever closes the pool asks too.
            if self.filler.shared.closed.load(Ordering::Acquire) {
                return;
            }
            self.filler.fill();
            let next = match self.filler.due(asked) {
                Due::Lease(count) => {
                    asked = false;
                    self.lease(count);
                    continue;
                }
                Due::At(then) => Some(then),
                Due::Nothing => None,
            };
            let overdue = self.filler.supply.wake_overdue(Instant::now());
            match next.into_iter().chain(overdue).min() {
                Some(then) => {
                    thread::park_timeout(then.saturating_duration_since(Instant::now()));
                }
                None => thread::park(),
            }
        }
    }

    /// Leases a chunk. What one of several requests brings counts even if another fails.
    fn lease(&mut self, count: u64) {
        let Self { client, filler } = self;
        // Before the requests: no ID of the answers is older.
        let born = boot_ns();
        let tag = match &filler.shared.settings.source {
            Source::Tag(tag) => Some(&**tag),
            Source::Snowflake => None,
        };
        let (mut first, mut refused) = (true, None);
        let done = client.ids_in_flight(tag, count, |answer| match answer {
            Ok(ids) => filler.answered(ids.runs(), born, std::mem::take(&mut first)),
            Err(error) => refused = Some(error),
        });
        match done.err().or(refused) {
            Some(error) => filler.failed(&error),
            None => drop(filler.supply.counters.refills.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Filler<'_> {
    fn due(&mut self, asked: bool) -> Due {
        let due = self.plan.due(Instant::now(), self.level(), asked);
        self.supply.counters.chunk.store(self.plan.chunk(), Ordering::Relaxed);
        due
    }

    fn level(&self) -> Level {
        let tally = self.shared.page().tickets.tally();
        let lent = self.supply.counters.lent.load(Ordering::Relaxed);
        let backlog = self.supply.counters.backlog.load(Ordering::Relaxed);
        Level { left: tally.left + backlog, lent, taken: tally.taken + tally.lost }
    }

    fn answered(&mut self, runs: &[Run], born: u64, is_first: bool) {
        if is_first {
            // Measured when the IDs arrive: the time of the request belongs to the time in which the
            // last chunk was used.
            let over = self.plan.leased(Instant::now(), self.level());
            let rate = self.plan.rate().to_bits();
            self.supply.counters.rate.store(rate, Ordering::Relaxed);
            if let Some(after) = over {
                self.report(&PoolEvent::OutageEnded { after });
            }
        }
        for run in runs {
            let (mut first, mut left) = (run.first, u64::from(run.count));
            self.supply.counters.leased.fetch_add(left, Ordering::Relaxed);
            self.supply.counters.backlog.fetch_add(left, Ordering::Relaxed);
            let size = record_size(left, self.plan.chunk());
            while left > 0 {
                let count = left.min(size);
                self.backlog.push_back(Lease { first, count, born });
                (first, left) = (first + count, left - count);
            }
        }
        self.fill();
    }

    /// Publishes what there is room for, and drops what became too old meanwhile.
    fn fill(&mut self) {
        let counters = &self.supply.counters;
        let oldest = self.shared.oldest();
        let mut published = false;
        while let Some(&lease) = self.backlog.front() {
            // Before publishing, so that statistics never count an ID twice.
            counters.backlog.fetch_sub(lease.count, Ordering::Relaxed);
            if lease.born < oldest {
                counters.outdated.fetch_add(lease.count, Ordering::Relaxed);
            } else if self.shared.page().tickets.publish(lease) {
                published = true;
            } else {
                counters.backlog.fetch_add(lease.count, Ordering::Relaxed);
                break;
            }
            self.backlog.pop_front();
        }
        if published {
            self.supply.tell(None);
        }
    }

    fn failed(&mut self, error: &Error) {
        self.supply.counters.failures.fetch_add(1, Ordering::Relaxed);
        let (report, until) = self.plan.failed(Instant::now(), error, fastrand::f64());
        if report {
            let held = self.level().left;
            self.report(&PoolEvent::OutageBegan { error: error.clone(), held });
        }
        self.supply.tell(Some(Failure { error: error.clone(), until }));
    }

    /// A listener that panics must not end the thread: the pool would never be refilled again.
    fn report(&self, event: &PoolEvent) {
        if let Some(listener) = &self.shared.settings.listener {
            let _ = catch_unwind(AssertUnwindSafe(|| listener(event)));
        }
    }
}

/// Into records of which size to cut a run of `count` IDs. A caller that comes to a record looks whether half
/// of the chunk is used, so one has to begin in time: none is longer than half of a chunk, and all are about
/// the same, since a short one at the end would be used up before anybody notices.
const fn record_size(count: u64, chunk: u64) -> u64 {
    match count.div_ceil(chunk.div_ceil(2)) {
        0 => 1,
        records => count.div_ceil(records),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_lease_brings_a_record_begins_between_a_quarter_and_half_of_a_chunk_before_the_end()
     {
        for chunk in [2, 3, 100, 1_000, 9_999, 1_000_000] {
            for count in (1..=2 * chunk).step_by(usize::try_from(chunk / 50).unwrap().max(1)) {
                let size = record_size(count, chunk);
                assert!((1..=chunk.div_ceil(2)).contains(&size), "{count} of {chunk}: {size}");
                let last = (count - 1) % size + 1;
                assert!(
                    count < chunk / 2 || last + count.div_ceil(size) > chunk / 4,
                    "{count}: {last}"
                );
            }
        }
        assert_eq!([record_size(0, 100), record_size(1, 1), record_size(7, 1)], [1, 1, 1]);
    }
}
