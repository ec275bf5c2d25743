//! Keeps the rate history: reads the marks of all tags every minute, and writes the file within a few
//! minutes and at a clean stop, if there is something new, on a thread where it holds up nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::history::{Growth, HighestMarks, MarkReading, RateHistory};
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::lock::lock;
use crate::segment::service::Segments;
use crate::state::rate_file::{MarksOfTag, RateFile};

/// The time between two readings of the marks.
const READ_EVERY: Duration = Duration::from_secs(60);

/// What is new is written after at most this many readings: a crash costs no more than that.
const WRITE_AFTER: u32 = 5;

/// How long the last write may take. Forecasts alone depend on it.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// How fast the tags of a running daemon grow. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TagRates(Arc<Mutex<RateHistory>>);

impl TagRates {
    /// How much the tag `name` has grown, if its mark is `mark` at `now_s`. `None` if too little is
    /// known.
    pub(crate) fn growth(&self, name: &str, now_s: u64, mark: u64) -> Option<Growth> {
        lock(&self.0).growth(name, now_s, mark)
    }

    /// Rates that go by these readings.
    #[cfg(test)]
    pub(super) fn of(tags: Vec<MarksOfTag>) -> Self {
        Self(Arc::new(Mutex::new(restored(tags))))
    }
}

/// The rate history of a running daemon, and the task that keeps it.
#[derive(Debug)]
pub(crate) struct RateKeeper {
    rates: TagRates,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RateKeeper {
    /// Reads `file` and goes on from there. A file that is of no use is dropped.
    pub(crate) fn start(file: RateFile, segments: Segments, environment: Environment) -> Self {
        let mut is_new = false;
        let history = file.read().map(restored).unwrap_or_else(|why| {
            is_new = true;
            tracing::warn!("rates.history is not used, and forecasts begin anew: {why}");
            RateHistory::default()
        });
        let history = Arc::new(Mutex::new(history));
        let stop = CancellationToken::new();
        let reader = MarkReader {
            history: Arc::clone(&history),
            file: Arc::new(file),
            segments,
            environment,
            is_new,
            failing: false,
        };
        // Not supervised: without forecasts leafd goes on.
        let task = tokio::spawn(reader.run(stop.clone()));
        Self { rates: TagRates(history), stop, task }
    }

    pub(crate) fn rates(&self) -> TagRates {
        self.rates.clone()
    }

    /// Writes the file for the last time.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        // What is lost if that takes too long is a few minutes of history.
        let _ = tokio::time::timeout(LAST_WRITE, self.task).await;
    }
}

struct MarkReader {
    history: Arc<Mutex<RateHistory>>,
    file: Arc<RateFile>,
    segments: Segments,
    environment: Environment,
    /// The file does not say everything that is known.
    is_new: bool,
    /// The last write failed, and the log says so.
    failing: bool,
}

impl MarkReader {
    async fn run(mut self, stop: CancellationToken) {
        let mut readings = 0;
        loop {
            self.read().await;
            readings += 1;
            if readings % WRITE_AFTER == 0 {
                self.write().await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(READ_EVERY)).await.is_none() {
                self.read().await;
                return self.write().await;
            }
        }
    }

    async fn read(&mut self) {
        let mut marks = HighestMarks::default();
        self.segments.visit_tags(|tag| marks.offer(tag.name, tag.high_water_mark)).await;
        let now_s = self.environment.unix_ms() / 1000;
        self.is_new |= lock(&self.history).note(now_s, marks);
    }

    async fn write(&mut self) {
        if !self.is_new {
            return;
        }
        let tags = written(&lock(&self.history));
        let file = Arc::clone(&self.file);
        let writing = tokio::task::spawn_blocking(move || {
            file.write(tags.iter().map(|(name, readings)| (name, readings.clone())))
        });
        // A cancelled write is none.
        let Ok(outcome) = writing.await else { return };
        if let Err(error) = &outcome
            && !self.failing
        {
            tracing::warn!("rates.history cannot be written: {error}");
        }
        self.failing = outcome.is_err();
        self.is_new = outcome.is_err();
    }
}

fn restored(tags: Vec<MarksOfTag>) -> RateHistory {
    let reading = |(at_s, mark)| MarkReading { at_s, mark };
    RateHistory::of(
        tags.into_iter()
            .map(|(name, readings)| (name, readings.into_iter().map(reading).collect()))
            .collect(),
    )
}

fn written(history: &RateHistory) -> Vec<MarksOfTag> {
    let pairs = |readings: &VecDeque<MarkReading>| {
        readings.iter().map(|reading| (reading.at_s, reading.mark)).collect()
    };
    let tags = history.tags().into_iter();
    tags.map(|(name, readings): (&BizTag, _)| (name.clone(), pairs(readings))).collect()
}
