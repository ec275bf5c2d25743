//! What a run amounts to: answers, latencies, errors, breaks. Times come in as arguments.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use leaf_client::wire::WireError;

use super::Nanos;
use crate::bench::verify::Verifier;
use crate::exit::Failure;

/// Latencies up to an hour, three digits each.
const MAX_LATENCY: Nanos = 3_600_000_000_000;

/// Answers of one read that can be counted together: sent at the same moment, IDs in a row.
#[derive(Debug, Default)]
struct Pile {
    sent_at: Nanos,
    answers: u64,
    first: u64,
    ids: u64,
}

/// Errors with one number.
#[derive(Debug)]
pub(crate) struct Errors {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    /// The message of the last one.
    pub(crate) message: String,
}

/// Counts of a run.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Answers with IDs since the start of the run, warm-up included.
    answered: u64,
    recording: bool,
    latencies: Histogram<u64>,
    errors: BTreeMap<u16, Errors>,
    disconnects: u64,
    failed_connects: u64,
    unanswered: u64,
    last_break: Option<String>,
    verifier: Option<Verifier>,
    pile: Pile,
}

impl Meter {
    /// An empty meter that does not record yet.
    ///
    /// # Errors
    /// `Usage` when the histogram refuses its bounds, which are constants.
    pub(crate) fn new(verifier: Option<Verifier>) -> Result<Self, Failure> {
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, 3)
            .map_err(|error| Failure::Usage(format!("cannot make a histogram: {error}")))?;
        Ok(Self {
            answered: 0,
            recording: false,
            latencies,
            errors: BTreeMap::new(),
            disconnects: 0,
            failed_connects: 0,
            unanswered: 0,
            last_break: None,
            verifier,
            pile: Pile::default(),
        })
    }

    /// The warm-up is over: what comes from here on is recorded.
    pub(crate) fn start_recording(&mut self) {
        self.recording = true;
        self.errors.clear();
        self.disconnects = 0;
        self.failed_connects = 0;
        self.unanswered = 0;
    }

    /// One request, sent at `sent_at`, got the IDs from `first` on. To be followed by
    /// [`Meter::settle`] when the read that brought it is through.
    #[inline]
    pub(crate) fn answer(&mut self, sent_at: Nanos, first: u64, ids: u32, now: Nanos) {
        if self.pile.sent_at != sent_at || self.pile.first + self.pile.ids != first {
            self.settle(now);
            self.pile = Pile { sent_at, answers: 0, first, ids: 0 };
        }
        self.pile.answers += 1;
        self.pile.ids += u64::from(ids);
    }

    /// Further IDs of the answer before.
    pub(crate) fn more_ids(&mut self, first: u64, ids: u32) {
        if let Some(verifier) = &mut self.verifier {
            verifier.add(first, u64::from(ids));
        }
    }

    /// Counts what has piled up; `now` is when it was read.
    pub(crate) fn settle(&mut self, now: Nanos) {
        let Pile { sent_at, answers, first, ids } = std::mem::take(&mut self.pile);
        if answers == 0 {
            return;
        }
        self.answered += answers;
        if self.recording {
            self.latencies.saturating_record_n(now.saturating_sub(sent_at).max(1), answers);
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.add(first, ids);
        }
    }

    /// A request, or the connection, was answered with an error.
    pub(crate) fn error(&mut self, error: WireError) {
        let entry = self.errors.entry(error.code).or_insert_with(|| Errors {
            name: error.code().name(),
            count: 0,
            message: String::new(),
        });
        entry.count += 1;
        entry.message = error.message;
    }

    /// A connection broke, with so many requests that will get no answer.
    pub(crate) fn disconnect(&mut self, why: String, unanswered: u64) {
        self.disconnects += 1;
        self.unanswered += unanswered;
        self.last_break = Some(why);
    }

    /// A connection could not be made.
    pub(crate) fn failed_connect(&mut self, why: String) {
        self.failed_connects += 1;
        self.last_break = Some(why);
    }

    /// Answers with IDs since the start of the run, warm-up included.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Latencies in ns since the warm-up.
    pub(crate) fn latencies(&self) -> &Histogram<u64> {
        &self.latencies
    }

    /// Errors since the warm-up, by number.
    pub(crate) fn errors(&self) -> &BTreeMap<u16, Errors> {
        &self.errors
    }

    /// All errors since the warm-up.
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }

    /// Broken connections since the warm-up.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// Connections that could not be made, since the warm-up.
    pub(crate) fn failed_connects(&self) -> u64 {
        self.failed_connects
    }

    /// Requests that broken connections took with them, since the warm-up.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Why a connection broke, or could not be made, last.
    pub(crate) fn last_break(&self) -> Option<&str> {
        self.last_break.as_deref()
    }

    /// The check for uniqueness, where one was asked for.
    pub(crate) fn verifier(&self) -> Option<&Verifier> {
        self.verifier.as_ref()
    }
}
