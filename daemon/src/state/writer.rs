//! The one thread that writes state, so that a slow disk holds up nobody who serves. Writes are
//! executed in the order in which they were handed in.

use std::future::Future;
use std::io;
use std::sync::mpsc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::dir::StatePlace;
use super::durable;
use super::journal::{SegmentJournal, TagRecord};
use super::lease_log::{LeaseLog, LeaseLogEntry};
use super::worker_file::WorkerRecord;
use crate::ids::BizTag;

enum Job {
    Segments(Vec<(BizTag, TagRecord)>, oneshot::Sender<Result<(), String>>),
    HighWaterMarks(Vec<(BizTag, u64)>, oneshot::Sender<Result<(), String>>),
    LastSegments(Vec<(BizTag, TagRecord)>, oneshot::Sender<Result<(), String>>),
    Worker(WorkerRecord, oneshot::Sender<Result<(), String>>),
    Database(String, oneshot::Sender<Result<(), String>>),
    LogLeasesTo(Box<LeaseLog>),
    Leased(LeaseLogEntry),
}

/// Hands writes to the thread. Cheap to clone; the thread ends when the last clone is gone.
#[derive(Debug, Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the thread, for the files at `place` in the start number `generation`. `fatal` is
    /// cancelled when it breaks down.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(
        place: StatePlace,
        generation: u64,
        journal: SegmentJournal,
        fatal: &CancellationToken,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let breakdown = fatal.clone().drop_guard();
        std::thread::Builder::new().name("leafd-state".into()).spawn(move || {
            run(&place, generation, journal, &receiver);
            // It was not a panic that got here.
            drop(breakdown.disarm());
        })?;
        Ok(Self { jobs })
    }

    /// Writes records of tags; returns when they are on disk.
    ///
    /// # Errors
    /// When they are not, or not surely.
    pub async fn segments(&self, records: Vec<(BizTag, TagRecord)>) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job::Segments(records, done)).map_err(|_| GONE)?;
        wait(outcome).await
    }

    /// Raises the high-water marks of tags; returns when they are on disk. What is left of a tag
    /// stays as the journal has it, and no mark is ever lowered.
    ///
    /// # Errors
    /// When they are not, or not surely.
    pub async fn high_water_marks(&self, marks: Vec<(BizTag, u64)>) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job::HighWaterMarks(marks, done)).map_err(|_| GONE)?;
        wait(outcome).await
    }

    /// Writes the file that says which database the ranges come from; returns when it is on disk.
    ///
    /// # Errors
    /// When it is not, or not surely.
    pub async fn database(&self, content: String) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job::Database(content, done)).map_err(|_| GONE)?;
        wait(outcome).await
    }

    /// Has leases written to a log from now on.
    pub fn log_leases_to(&self, log: LeaseLog) {
        // A writer that has ended is found out by whoever waits for it.
        let _ = self.jobs.send(Job::LogLeasesTo(Box::new(log)));
    }

    /// Adds a lease to the log, before any record that is handed in later. Nobody waits for it.
    pub fn leased(&self, lease: LeaseLogEntry) {
        let _ = self.jobs.send(Job::Leased(lease));
    }

    /// As [`Self::segments`], for the last records of this life, which go to a journal of their own.
    ///
    /// # Errors
    /// When they are not on disk, or not surely.
    pub async fn last_segments(&self, records: Vec<(BizTag, TagRecord)>) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job::LastSegments(records, done)).map_err(|_| GONE)?;
        wait(outcome).await
    }

    /// Writes the worker file. It is handed in at once, whether somebody waits or not, so that of
    /// two records the later one stays; the outcome comes when it is on disk.
    ///
    /// # Errors
    /// When it is not, or not surely.
    pub fn worker(
        &self,
        record: WorkerRecord,
    ) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let (done, outcome) = oneshot::channel();
        let is_sent = self.jobs.send(Job::Worker(record, done)).is_ok();
        async move { if is_sent { wait(outcome).await } else { Err(GONE.to_owned()) } }
    }
}

const GONE: &str = "the thread that writes state has ended";

async fn wait(outcome: oneshot::Receiver<Result<(), String>>) -> Result<(), String> {
    outcome.await.map_err(|_| GONE)?
}

fn run(
    place: &StatePlace,
    generation: u64,
    mut journal: SegmentJournal,
    jobs: &mpsc::Receiver<Job>,
) {
    let mut leases: Option<Box<LeaseLog>> = None;
    while let Ok(job) = jobs.recv() {
        let ours = place.check();
        // Who no longer waits for the outcome need not be told.
        let _ = match job {
            Job::Segments(records, done) => {
                let written = ours.and_then(|()| journal.append(records));
                done.send(written.map_err(|error| error.to_string()))
            }
            Job::HighWaterMarks(marks, done) => {
                let written = ours.and_then(|()| journal.raise(marks));
                done.send(written.map_err(|error| error.to_string()))
            }
            Job::Database(content, done) => {
                let written = ours
                    .and_then(|()| durable::replace(&place.database_file(), content.as_bytes()));
                done.send(written.map(drop).map_err(|error| error.to_string()))
            }
            Job::LogLeasesTo(log) => {
                leases = Some(log);
                continue;
            }
            Job::Leased(lease) => {
                if let Some(log) = &mut leases {
                    note(log, ours, &lease);
                }
                continue;
            }
            Job::LastSegments(records, done) => {
                let written = ours.and_then(|()| journal.finish(records));
                done.send(written.map_err(|error| error.to_string()))
            }
            Job::Worker(record, done) => {
                let text = |file| record.write(generation, file);
                let written =
                    ours.and_then(|()| durable::replace_marked(&place.worker_file(), text));
                done.send(written.map(drop).map_err(|error| error.to_string()))
            }
        };
    }
}

/// Leases go on without their log, and `leafd audit` is told of the gap.
fn note(log: &mut LeaseLog, ours: io::Result<()>, lease: &LeaseLogEntry) {
    if ours.is_err() {
        return log.lost();
    }
    if let Err(error) = log.add(lease) {
        tracing::warn!("the lease log cannot be written, so `leafd audit` misses leases: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::dir::{ForeignPolicy, StateDir};
    use crate::state::owner::StateOwner;

    #[tokio::test]
    async fn of_two_worker_records_the_later_one_stays_whoever_is_waited_for_first() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::lock(folder.path()).unwrap();
        let here = StateOwner::here(Some("m"), "", None);
        let contents = state.open(&here, ForeignPolicy::Refuse).unwrap();
        let (place, fatal) = (state.place(), CancellationToken::new());
        let file = place.worker_file();
        let writer = Writer::start(place, contents.generation, contents.journal, &fatal).unwrap();
        let record = |ceiling_ms| WorkerRecord { ceiling_ms, ..WorkerRecord::fresh() };
        let (first, second) = (writer.worker(record(1)), writer.worker(record(2)));
        second.await.unwrap();
        first.await.unwrap();
        let (written, _) = WorkerRecord::read(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(written.ceiling_ms, 2);
    }
}
