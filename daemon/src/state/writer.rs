//! The one thread that writes state, so that a slow disk holds up nobody who serves. Writes are
//! executed in the order in which they were handed in.

use std::io;
use std::sync::mpsc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::dir::Place;
use super::durable;
use super::journal::{Journal, TagRecord};
use super::worker_file::WorkerRecord;
use crate::segment::tag::BizTag;

enum Job {
    Segments(Vec<(BizTag, TagRecord)>, oneshot::Sender<Result<(), String>>),
    Worker(WorkerRecord, oneshot::Sender<Result<(), String>>),
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
        place: Place,
        generation: u64,
        journal: Journal,
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
        self.execute(|done| Job::Segments(records, done)).await
    }

    /// Writes the worker file; returns when it is on disk.
    ///
    /// # Errors
    /// When it is not, or not surely.
    pub async fn worker(&self, record: WorkerRecord) -> Result<(), String> {
        self.execute(|done| Job::Worker(record, done)).await
    }

    async fn execute(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Job,
    ) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        let gone = "the thread that writes state has ended";
        self.jobs.send(job(done)).map_err(|_| gone)?;
        outcome.await.map_err(|_| gone)?
    }
}

fn run(place: &Place, generation: u64, mut journal: Journal, jobs: &mpsc::Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let ours = place.check();
        // Who no longer waits for the outcome need not be told.
        let _ = match job {
            Job::Segments(records, done) => {
                let written = ours.and_then(|()| journal.append(records));
                done.send(written.map_err(|error| error.to_string()))
            }
            Job::Worker(record, done) => {
                let text = record.write(generation);
                let written =
                    ours.and_then(|()| durable::replace(&place.worker_file(), text.as_bytes()));
                done.send(written.map(drop).map_err(|error| error.to_string()))
            }
        };
    }
}
