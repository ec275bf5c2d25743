//! The threads of a run, and the rounds through which it leads them. Threads and handles last for the
//! whole run, so that no figure contains a start.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use leaf_client::pool::Pool;
use leafd::cli::leafctl::PoolMode;

use super::blocks::{BlockVerifier, IdCheck, IdRecorder, Unchecked, lock};
use super::calls::{Addition, Caller, Counter, FetchAdd, Numbers, Signals};
use super::figures::{CYCLE, Figures, RoundKind, RoundPart, round_length};
use crate::bench::plan::Plan;
use crate::exit::Failure;
use crate::output::grouped;

/// How often the shared check passes on what it has, if a round takes long. It must not keep snowflake
/// IDs until newer ones make them look too old.
const TIDY: Duration = Duration::from_secs(1);

/// A stack this large is enough for a loop.
const STACK: usize = 256 * 1024;

/// What the threads of a run share.
#[derive(Debug)]
pub(super) struct Crew<'a> {
    pub(super) plan: &'a Plan,
    pub(super) mode: PoolMode,
    pub(super) threads: usize,
    pub(super) pool: &'a Pool,
    pub(super) check: Option<&'a Mutex<BlockVerifier>>,
    signals: Signals<'a>,
    shared_counter: Counter,
}

impl<'a> Crew<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        mode: PoolMode,
        threads: usize,
        pool: &'a Pool,
        check: Option<&'a Mutex<BlockVerifier>>,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let (signals, shared_counter) = (Signals::new(interrupted), Counter::default());
        Self { plan, mode, threads, pool, check, signals, shared_counter }
    }

    /// Executes the plan. Returns the figures, and how long the measurement took.
    ///
    /// # Errors
    /// `Unavailable` if the system has no thread or no memory left.
    pub(super) fn run(&self) -> Result<(Figures, Duration), Failure> {
        // When this ends, the rounds have ended, and with them what the threads wait for.
        thread::scope(|scope| Rounds::start(self, scope)?.run())
    }

    /// The work of one thread: rounds, until there are no more.
    fn work(&self, thread: usize, rounds: &Receiver<RoundKind>, parts: &Sender<Outcome>) {
        match self.mode {
            PoolMode::Ordered => self.work_with(self.pool, thread, rounds, parts),
            PoolMode::PerThread => match self.pool.local() {
                Ok(local) => self.work_with(local, thread, rounds, parts),
                // If nobody listens, the run has failed already.
                Err(error) => drop(parts.send(Err(error.into()))),
            },
        }
    }

    fn work_with<N: Numbers>(
        &self,
        numbers: N,
        thread: usize,
        rounds: &Receiver<RoundKind>,
        parts: &Sender<Outcome>,
    ) {
        match self.check {
            Some(check) => self.rounds(numbers, IdRecorder::new(check), thread, rounds, parts),
            None => self.rounds(numbers, Unchecked, thread, rounds, parts),
        }
    }

    fn rounds<N: Numbers, C: IdCheck>(
        &self,
        numbers: N,
        check: C,
        thread: usize,
        rounds: &Receiver<RoundKind>,
        parts: &Sender<Outcome>,
    ) {
        let signals = &self.signals;
        let mut caller = Caller::new(numbers, check, signals, self.plan.timeout);
        let counter = Counter::default();
        while let Ok(kind) = rounds.recv() {
            let mut samples = Vec::new();
            let began = Instant::now();
            let taken = match kind {
                RoundKind::Take => caller.take(),
                RoundKind::FetchAdd => Caller::count(FetchAdd(&self.shared_counter), signals),
                RoundKind::Addition => Caller::count(Addition(&counter), signals),
                RoundKind::Sample => caller.sample(&mut samples),
            };
            let ended = Instant::now();
            caller.hand_over();
            let (waits, errors) =
                (std::mem::take(&mut caller.waits), std::mem::take(&mut caller.errors));
            let part = RoundPart { thread, taken, began, ended, waits, errors, samples };
            if parts.send(Ok(part)).is_err() {
                return;
            }
        }
    }
}

/// What a thread says after a round, or instead of its first one.
type Outcome = Result<RoundPart, Failure>;

/// Leads the threads through the rounds.
#[derive(Debug)]
struct Rounds<'a> {
    crew: &'a Crew<'a>,
    to_threads: Vec<Sender<RoundKind>>,
    parts: Receiver<Outcome>,
    figures: Figures,
    began: Instant,
    /// When progress was last reported.
    reported: Instant,
}

impl<'a> Rounds<'a> {
    fn start<'scope>(
        crew: &'scope Crew<'a>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<Rounds<'scope>, Failure> {
        let (to_leader, parts) = mpsc::channel();
        let mut to_threads = Vec::with_capacity(crew.threads);
        for thread in 0..crew.threads {
            let (to_thread, rounds) = mpsc::channel();
            let to_leader = to_leader.clone();
            let builder = thread::Builder::new().name(format!("bench-{thread}")).stack_size(STACK);
            let started = builder.spawn_scoped(scope, move || {
                crew.work(thread, &rounds, &to_leader);
            });
            started.map_err(|error| {
                let threads = crew.threads;
                Failure::Unavailable(format!("cannot start thread {thread} of {threads}: {error}"))
            })?;
            to_threads.push(to_thread);
        }
        let (figures, now) = (Figures::new(crew.threads)?, Instant::now());
        Ok(Rounds { crew, to_threads, parts, figures, began: now, reported: now })
    }

    fn run(mut self) -> Result<(Figures, Duration), Failure> {
        let plan = self.crew.plan;
        let length = round_length(plan.duration);
        while self.began.elapsed() < plan.warm_up && !self.is_interrupted() {
            let left = plan.warm_up.saturating_sub(self.began.elapsed());
            let parts = self.round(RoundKind::Take, length.min(left))?;
            self.figures.add_warm_up(&parts);
            self.progress();
        }
        let measured = Instant::now();
        // Whole cycles, since a ratio needs one, and at least one, however slowly so many threads go.
        let half = length * CYCLE.len() as u32 / 2;
        loop {
            for kind in CYCLE {
                if self.is_interrupted() {
                    return Ok((self.figures, measured.elapsed()));
                }
                let parts = self.round(kind, length)?;
                self.figures.add(kind, parts);
                self.progress();
            }
            if measured.elapsed() + half > plan.duration {
                break;
            }
        }
        Ok((self.figures, measured.elapsed()))
    }

    /// Lets all threads do the same for a while.
    fn round(&self, kind: RoundKind, length: Duration) -> Result<Vec<RoundPart>, Failure> {
        self.crew.signals.round_over.store(false, Relaxed);
        for thread in &self.to_threads {
            // A thread that has ended has said why.
            let _ = thread.send(kind);
        }
        thread::sleep(length);
        self.crew.signals.round_over.store(true, Relaxed);
        let mut parts = Vec::with_capacity(self.to_threads.len());
        while parts.len() < self.to_threads.len() {
            match self.parts.recv_timeout(TIDY) {
                Ok(part) => parts.push(part?),
                Err(RecvTimeoutError::Timeout) => self.tidy(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Unavailable("all threads have ended".to_owned()));
                }
            }
        }
        self.tidy();
        Ok(parts)
    }

    /// Threads that pause have handed over what they had.
    fn tidy(&self) {
        if let Some(check) = self.crew.check {
            lock(check).close_blocks();
        }
    }

    fn is_interrupted(&self) -> bool {
        self.crew.signals.interrupted.load(Relaxed)
    }

    fn progress(&mut self) {
        if !self.crew.plan.progress || self.reported.elapsed() < Duration::from_secs(1) {
            return;
        }
        // A failing stderr is no reason to stop measuring.
        let _ = writeln!(
            std::io::stderr(),
            "{:>6} s  {:>16} IDs  errors {}  waits {}",
            self.began.elapsed().as_secs(),
            grouped(self.figures.ids),
            grouped(self.figures.errors.total()),
            grouped(self.figures.waits.count),
        );
        self.reported = Instant::now();
    }
}
