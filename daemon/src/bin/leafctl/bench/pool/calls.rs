//! The loops that are measured. They differ only in where the next number comes from, and know neither
//! threads nor reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::pool::{LocalPool, Pool};

use super::blocks::{IdCheck, Unchecked};
use super::trouble::{ErrorTally, Waits};

/// Calls between two looks at whether the round is over.
const BATCH: u32 = 1000;

/// One in so many calls is timed. A prime, so that it does not always, or never, meet the same place of
/// a chunk.
const SAMPLE: u32 = 1009;

/// Waiting threads look this often whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// Bounds of the pause after an error.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Where numbers come from, one at a time.
pub(super) trait Numbers {
    fn try_next(&self) -> Option<u64>;

    /// Called when there is none. [`Pool::next`] is this after [`Self::try_next`].
    fn next_within(&self, timeout: Duration) -> Result<u64, Error>;
}

impl Numbers for &Pool {
    #[inline(always)]
    fn try_next(&self) -> Option<u64> {
        Pool::try_next(self)
    }

    fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
        Pool::next_within(self, timeout)
    }
}

impl Numbers for LocalPool {
    #[inline(always)]
    fn try_next(&self) -> Option<u64> {
        Self::try_next(self)
    }

    fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
        Self::next_within(self, timeout)
    }
}

/// A counter on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counter(AtomicU64);

/// The yardstick of a shared pool: an addition to memory that all threads write.
#[derive(Debug)]
pub(super) struct FetchAdd<'a>(pub(super) &'a Counter);

/// The yardstick of a local handle: an addition to memory that only this thread writes.
#[derive(Debug)]
pub(super) struct Addition<'a>(pub(super) &'a Counter);

impl Numbers for FetchAdd<'_> {
    #[inline(always)]
    fn try_next(&self) -> Option<u64> {
        self.next_within(Duration::ZERO).ok()
    }

    #[inline(always)]
    fn next_within(&self, _: Duration) -> Result<u64, Error> {
        Ok(self.0.0.fetch_add(1, Relaxed))
    }
}

impl Numbers for Addition<'_> {
    #[inline(always)]
    fn try_next(&self) -> Option<u64> {
        self.next_within(Duration::ZERO).ok()
    }

    #[inline(always)]
    fn next_within(&self, _: Duration) -> Result<u64, Error> {
        // As in a local handle. A plain addition would be moved out of the loop.
        let number = self.0.0.load(Relaxed);
        self.0.0.store(number.wrapping_add(1), Relaxed);
        Ok(number)
    }
}

/// What all threads of a run look at.
#[derive(Debug)]
pub(super) struct Signals<'a> {
    /// The present round is over.
    pub(super) round_over: AtomicBool,
    /// The operator has interrupted the run.
    pub(super) interrupted: &'a AtomicBool,
}

impl<'a> Signals<'a> {
    pub(super) const fn new(interrupted: &'a AtomicBool) -> Self {
        Self { round_over: AtomicBool::new(false), interrupted }
    }
}

/// One thread's calls.
#[derive(Debug)]
pub(super) struct Caller<'a, N, C> {
    numbers: N,
    check: C,
    signals: &'a Signals<'a>,
    timeout: Duration,
    pub(super) waits: Waits,
    pub(super) errors: ErrorTally,
}

impl<'a, N: Numbers> Caller<'a, N, Unchecked> {
    /// Calls one of the yardsticks until the round is over. Returns how often.
    pub(super) fn count(numbers: N, signals: &'a Signals<'a>) -> u64 {
        Caller::new(numbers, Unchecked, signals, Duration::ZERO).take()
    }
}

impl<'a, N: Numbers, C: IdCheck> Caller<'a, N, C> {
    pub(super) fn new(numbers: N, check: C, signals: &'a Signals<'a>, timeout: Duration) -> Self {
        let (waits, errors) = Default::default();
        Self { numbers, check, signals, timeout, waits, errors }
    }

    /// Takes numbers until the round is over. Returns how many.
    // Each loop is a function of its own, lest the compiler spills what others need.
    #[inline(never)]
    pub(super) fn take(&mut self) -> u64 {
        let mut taken = 0;
        while !self.is_over() {
            taken += self.take_batch(BATCH);
        }
        taken
    }

    /// As [`Self::take`], and times single calls, in ns. A call that has to wait is no sample.
    #[inline(never)]
    pub(super) fn sample(&mut self, samples: &mut Vec<u64>) -> u64 {
        let mut taken = 0;
        while !self.is_over() {
            taken += self.take_batch(SAMPLE - 1);
            let began = Instant::now();
            let number = self.numbers.try_next();
            let took = began.elapsed();
            if let Some(number) = number {
                self.check.note(number);
                taken += 1;
                samples.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            } else {
                taken += self.wait();
            }
        }
        taken
    }

    /// Passes on what the check has not yet passed on. Not part of a round.
    pub(super) fn hand_over(&mut self) {
        self.check.hand_over();
    }

    /// Makes so many calls, fewer if the round ends while one waits. Returns how many numbers came.
    #[inline(always)]
    fn take_batch(&mut self, calls: u32) -> u64 {
        let mut taken = 0;
        for _ in 0..calls {
            if let Some(number) = self.numbers.try_next() {
                self.check.note(number);
                taken += 1;
            } else {
                taken += self.wait();
                if self.is_over() {
                    break;
                }
            }
        }
        taken
    }

    /// Waits for a number, beyond the end of the round if need be, so that a wait is never cut in two.
    /// Returns how many came: 1, or 0 after an error or an interrupt.
    #[cold]
    fn wait(&mut self) -> u64 {
        let began = Instant::now();
        self.check.hand_over();
        let outcome = loop {
            let patience = self.timeout.saturating_sub(began.elapsed()).min(LOOK);
            let asked = Instant::now();
            let error = match self.numbers.next_within(patience) {
                Ok(number) => break Ok(number),
                Err(error) => error,
            };
            // An error before the time is up does not pass by itself.
            if asked.elapsed() < patience || began.elapsed() >= self.timeout {
                break Err(Some(error));
            }
            if self.is_interrupted() {
                break Err(None);
            }
        };
        self.waits.add(began.elapsed());
        match outcome {
            Ok(number) => {
                self.check.note(number);
                return 1;
            }
            Err(Some(error)) => {
                self.errors.add(&error);
                let pause = error.retry_after().unwrap_or_default();
                std::thread::sleep(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            }
            Err(None) => {}
        }
        0
    }

    fn is_over(&self) -> bool {
        self.signals.round_over.load(Relaxed)
    }

    fn is_interrupted(&self) -> bool {
        self.signals.interrupted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leaf_client::wire::{ErrorCode, WireError};
    use std::cell::{Cell, RefCell};

    /// Answers calls in turn, and ends the round after the last one.
    #[derive(Debug)]
    struct Script<'a> {
        signals: &'a Signals<'a>,
        answers: RefCell<Vec<Option<u64>>>,
        /// What a call that waits gets: an ID, or a refusal.
        waiting: Cell<Result<u64, ErrorCode>>,
        waited: Cell<Duration>,
    }

    impl Numbers for &Script<'_> {
        fn try_next(&self) -> Option<u64> {
            let mut answers = self.answers.borrow_mut();
            self.signals.round_over.store(answers.len() <= 1, Relaxed);
            answers.pop().flatten()
        }

        fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
            self.waited.set(self.waited.get() + timeout);
            self.waiting.get().map_err(|code| Error::Refused(WireError::new(code, "no")))
        }
    }

    #[derive(Debug, Default)]
    struct Noted {
        ids: Vec<u64>,
        handed_over: usize,
    }

    impl IdCheck for &mut Noted {
        fn note(&mut self, id: u64) {
            self.ids.push(id);
        }

        fn hand_over(&mut self) {
            self.handed_over = self.ids.len();
        }
    }

    fn script<'a>(signals: &'a Signals<'a>, answers: Vec<Option<u64>>) -> Script<'a> {
        let waiting = Cell::new(Err(ErrorCode::StoreUnavailable));
        Script { signals, answers: RefCell::new(answers), waiting, waited: Cell::default() }
    }

    static NEVER: AtomicBool = AtomicBool::new(false);

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn a_call_that_waits_is_counted_apart_and_its_id_is_checked() {
        let (signals, mut noted) = (Signals::new(&NEVER), Noted::default());
        let script = script(&signals, vec![None, Some(7)]);
        script.waiting.set(Ok(9));
        let mut caller = Caller::new(&script, &mut noted, &signals, TIMEOUT);
        assert_eq!(caller.take(), 2);
        assert_eq!((caller.waits.count, caller.errors.total()), (1, 0));
        assert_eq!((noted.ids, noted.handed_over), (vec![7, 9], 1));
    }

    #[test]
    fn an_error_counts_by_its_name_and_the_thread_goes_on() {
        let (signals, mut noted) = (Signals::new(&NEVER), Noted::default());
        let script = script(&signals, vec![Some(3), None, Some(1)]);
        script.waiting.set(Err(ErrorCode::Forbidden));
        let mut caller = Caller::new(&script, &mut noted, &signals, TIMEOUT);
        // The script is through after the third call; the rest of the batch is never taken.
        assert_eq!(caller.take_batch(3), 2);
        let kinds: Vec<_> =
            caller.errors.kinds().map(|(_, name, kind)| (name, kind.count)).collect();
        assert_eq!(kinds, [("Forbidden", 1)]);
        assert_eq!(noted.ids, [1, 3]);
        // It did not pass by itself, so nobody waited for the whole timeout.
        assert_eq!(script.waited.get(), LOOK);
    }

    #[test]
    fn an_interrupted_wait_is_no_error() {
        let interrupted = AtomicBool::new(true);
        let signals = Signals::new(&interrupted);
        #[derive(Debug)]
        struct Nothing;
        impl Numbers for Nothing {
            fn try_next(&self) -> Option<u64> {
                None
            }
            fn next_within(&self, timeout: Duration) -> Result<u64, Error> {
                std::thread::sleep(timeout);
                Err(Error::DeadlineExceeded { call: "segment", timeout })
            }
        }
        let mut caller = Caller::new(Nothing, Unchecked, &signals, Duration::from_secs(3600));
        assert_eq!(caller.wait(), 0);
        assert_eq!((caller.waits.count, caller.errors.total()), (1, 0));
    }

    #[test]
    fn samples_are_calls_that_did_not_wait() {
        let (signals, mut noted) = (Signals::new(&NEVER), Noted::default());
        // The last of each stretch is timed; the second time, it waits.
        let mut answers: Vec<_> = (1..=u64::from(2 * SAMPLE)).map(Some).collect();
        answers[0] = None;
        let script = script(&signals, answers);
        script.waiting.set(Ok(0));
        let mut samples = Vec::new();
        let mut caller = Caller::new(&script, &mut noted, &signals, TIMEOUT);
        assert_eq!(caller.sample(&mut samples), u64::from(2 * SAMPLE));
        assert_eq!((samples.len(), caller.waits.count), (1, 1));
        assert_eq!(noted.ids.len(), 2 * SAMPLE as usize);
    }
}
