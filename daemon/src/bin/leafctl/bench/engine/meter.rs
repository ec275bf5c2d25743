//! Counts what happens in a run: answers, latencies, errors, lost connections. Times come in as
//! arguments.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use leaf_client::wire::WireError;

use super::Nanos;
use super::dead_time::DeadTime;
use crate::bench::verify::Verifier;
use crate::exit::Failure;

/// Longest latency that the histogram can tell from longer ones: an hour.
const MAX_LATENCY: Nanos = 3_600_000_000_000;

/// Answers of one read that can be counted together: their requests were sent at the same time, and
/// their IDs are consecutive.
#[derive(Debug, Default)]
struct Pile {
    sent_at: Nanos,
    answers: u64,
    first: u64,
    ids: u64,
}

/// All errors with the same number.
#[derive(Debug)]
pub(crate) struct Errors {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    /// The message of the last one.
    pub(crate) message: String,
}

/// The counts of a run. Except for [`Meter::answered`], they exclude the warm-up.
#[derive(Debug)]
pub(crate) struct Meter {
    answered: u64,
    recording: bool,
    latencies: Histogram<u64>,
    errors: BTreeMap<u16, Errors>,
    disconnects: u64,
    failed_connects: u64,
    unanswered: u64,
    dead_time: DeadTime,
    last_break: Option<String>,
    verifier: Option<Verifier>,
    pile: Pile,
}

impl Meter {
    /// A meter that does not record yet.
    ///
    /// # Errors
    /// `Usage` if the histogram rejects its bounds, which are constants.
    pub(crate) fn new(verifier: Option<Verifier>) -> Result<Self, Failure> {
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, 3)
            .map_err(|error| Failure::Usage(format!("cannot create a histogram: {error}")))?;
        Ok(Self {
            answered: 0,
            recording: false,
            latencies,
            errors: BTreeMap::new(),
            disconnects: 0,
            failed_connects: 0,
            unanswered: 0,
            dead_time: DeadTime::default(),
            last_break: None,
            verifier,
            pile: Pile::default(),
        })
    }

    /// Ends the warm-up: counts begin at 0, and latencies are recorded.
    pub(crate) fn start_recording(&mut self, now: Nanos) {
        self.recording = true;
        self.dead_time.begin(now);
        self.errors.clear();
        self.disconnects = 0;
        self.failed_connects = 0;
        self.unanswered = 0;
    }

    /// Counts the answer to a request that was sent at `sent_at`: `ids` IDs from `first` on. Call
    /// [`Meter::settle`] when all answers of the same read are counted.
    #[inline]
    pub(crate) fn answer(&mut self, sent_at: Nanos, first: u64, ids: u32, now: Nanos) {
        if self.pile.sent_at != sent_at || self.pile.first + self.pile.ids != first {
            self.settle(now);
            self.pile = Pile { sent_at, answers: 0, first, ids: 0 };
        }
        self.pile.answers += 1;
        self.pile.ids += u64::from(ids);
    }

    /// Checks further IDs of the last answer.
    pub(crate) fn more_ids(&mut self, first: u64, ids: u32) {
        if let Some(verifier) = &mut self.verifier {
            verifier.add(first, u64::from(ids));
        }
    }

    /// Counts the piled-up answers, which were read at `now`.
    pub(crate) fn settle(&mut self, now: Nanos) {
        let Pile { sent_at, answers, first, ids } = std::mem::take(&mut self.pile);
        if answers == 0 {
            return;
        }
        self.answered += answers;
        if self.recording {
            self.dead_time.alive(now);
            self.latencies.saturating_record_n(now.saturating_sub(sent_at).max(1), answers);
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.add(first, ids);
        }
    }

    /// The measurement is over: the run sends nothing new, and no time is dead any more.
    pub(crate) fn stop_sending(&mut self, now: Nanos) {
        if self.recording {
            self.dead_time.end(now);
        }
    }

    /// Counts an error that answered a request or closed a connection.
    pub(crate) fn error(&mut self, error: WireError) {
        let entry = self.errors.entry(error.code).or_insert_with(|| Errors {
            name: error.code().name(),
            count: 0,
            message: String::new(),
        });
        entry.count += 1;
        entry.message = error.message;
    }

    /// Counts a lost connection, and its requests that get no answer any more.
    pub(crate) fn disconnect(&mut self, why: String, unanswered: u64) {
        self.disconnects += 1;
        self.unanswered += unanswered;
        self.last_break = Some(why);
    }

    pub(crate) fn failed_connect(&mut self, why: String) {
        self.failed_connects += 1;
        self.last_break = Some(why);
    }

    /// Answers with IDs since the start of the run, warm-up included.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Latencies in ns.
    pub(crate) fn latencies(&self) -> &Histogram<u64> {
        &self.latencies
    }

    /// Errors by number.
    pub(crate) fn errors(&self) -> &BTreeMap<u16, Errors> {
        &self.errors
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }

    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    pub(crate) fn failed_connects(&self) -> u64 {
        self.failed_connects
    }

    /// Requests in flight on lost connections.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// The stretches of the measurement without IDs.
    pub(crate) fn dead_time(&self) -> &DeadTime {
        &self.dead_time
    }

    /// Why the last connection was lost, or could not be opened.
    pub(crate) fn last_break(&self) -> Option<&str> {
        self.last_break.as_deref()
    }

    /// The uniqueness check, if the run has one.
    pub(crate) fn verifier(&self) -> Option<&Verifier> {
        self.verifier.as_ref()
    }
}
