//! The measuring instrument. It shares the machine's cores with the daemon that it measures, so it
//! is a single thread that, per batch of answers, allocates nothing and makes no system call but
//! one read and one write. It knows bytes, time and counts; `report` says what they mean.

mod course;
mod dead_time;
mod link;
mod many;
mod meter;
mod single;
mod socket;
mod watchdog;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use self::course::Measured;
use self::course::{Course, Recording};
pub(crate) use self::dead_time::DeadTime;
pub(crate) use self::meter::{Errors, Meter};
use super::plan::Plan;
use super::verify::Verifier;
use crate::exit::Failure;
use crate::output::grouped;

/// Nanoseconds since the start of the run.
type Nanos = u64;

/// How often the engine checks for signals, progress, ended pauses and lost connections.
const TICK: Duration = Duration::from_millis(10);

/// How long after a request's timeout a silent connection counts as lost.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of requests that surely fit into a socket's buffer. A larger blocking write could wait for
/// a daemon that itself waits until its answers are read.
const MAX_BLOCKING_WRITE: usize = 32 * 1024;

/// Size of the read buffer. Little of it is used as long as the daemon keeps up.
const READ_LEN: usize = 64 * 1024;

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// Executes `plan`. Setting `stop` ends it early, with the result so far.
///
/// # Errors
/// `Usage`, `Protocol` and `Unavailable` when continuing makes no sense. A broken connection is no
/// error: the engine counts it and reconnects.
pub(crate) fn run(
    plan: &Plan,
    verifier: Option<Verifier>,
    stop: &AtomicBool,
) -> Result<(Measured, Meter), Failure> {
    let mut run = Run {
        plan,
        started: Instant::now(),
        course: Course::new(plan),
        meter: Meter::new(verifier)?,
        stop,
        next_look: 0,
        reported: (0, 0),
    };
    if plan.connections == 1 && plan.requests().total_len() <= MAX_BLOCKING_WRITE {
        single::drive(&mut run)?;
    } else {
        many::drive(&mut run)?;
    }
    Ok((run.course.measured().unwrap_or_default(), run.meter))
}

/// What all connections of a run share.
#[derive(Debug)]
struct Run<'a> {
    plan: &'a Plan,
    started: Instant,
    course: Course,
    meter: Meter,
    stop: &'a AtomicBool,
    next_look: Nanos,
    /// When progress was last reported, and how many answers there were.
    reported: (Nanos, u64),
}

impl Run<'_> {
    #[inline]
    fn now(&self) -> Nanos {
        nanos(self.started.elapsed())
    }

    /// Whether the run sends nothing new.
    fn is_over(&self) -> bool {
        self.course.measured().is_some()
    }

    /// How long a connection may be silent.
    fn patience(&self) -> Duration {
        self.plan.timeout.saturating_add(GRACE)
    }

    /// Call this with every reading of the clock, before counting the answers read at that time.
    #[inline]
    fn tick(&mut self, now: Nanos) {
        if now >= self.next_look {
            self.look(now);
        }
    }

    #[cold]
    fn look(&mut self, now: Nanos) {
        if self.stop.load(Ordering::Relaxed) {
            self.course.stop(now, self.meter.answered());
        }
        if self.course.step(now, self.meter.answered()) == Recording::Begins {
            self.meter.start_recording(now);
        }
        if self.is_over() {
            self.meter.stop_sending(now);
        }
        let (at, answered) = self.reported;
        if self.plan.progress && !self.is_over() && now - at >= nanos(Duration::from_secs(1)) {
            let rate = (self.meter.answered() - answered) as f64 / (now - at) as f64 * 1e9;
            // A failing stderr is no reason to stop measuring.
            let _ = writeln!(
                std::io::stderr(),
                "{:>6} s  {:>12} requests/s  errors {}  disconnects {}",
                now / 1_000_000_000,
                grouped(rate as u64),
                self.meter.error_count(),
                self.meter.disconnects(),
            );
            self.reported = (now, self.meter.answered());
        }
        self.next_look = self.course.next_phase_at().min(now + nanos(TICK));
    }
}
