//! The one thread that writes state, so that a slow disk does not delay the threads that serve. It
//! executes writes in the order in which it receives them.

use std::future::Future;
use std::io;
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::dir::StatePlace;
use super::durable;
use super::journal::{RetiredSeries, SegmentJournal, TagRecord};
use super::lease_log::{LeaseLog, LeaseLogEntry};
use super::mark::FileMark;
use super::worker_file::WorkerRecord;
use super::write_tally::{StateFile, WriteTally};
use crate::environment::Environment;
use crate::ids::BizTag;

/// Carries the outcome of a job back to the caller.
type Done = oneshot::Sender<Result<(), String>>;

/// Makes a file's content once the file's mark is known.
type TextFor = Box<dyn FnOnce(FileMark) -> String + Send>;

enum Job {
    Segments(Vec<(BizTag, TagRecord)>, Done),
    HighWaterMarks(Vec<(BizTag, u64)>, Done),
    Retire(Vec<(BizTag, RetiredSeries)>),
    LastSegments(Vec<(BizTag, TagRecord)>, Done),
    Worker(WorkerRecord, Done),
    Database(String, Done),
    Witness(TextFor, Done),
    LogLeasesTo(Box<LeaseLog>),
    Leased(LeaseLogEntry),
}

/// Sends writes to the thread. Cheap to clone; the thread ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
    tally: Arc<WriteTally>,
}

impl Writer {
    /// Starts the thread, for the files at `place` in the start with the number `generation`. Cancels
    /// `fatal` if the thread panics.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub(crate) fn start(
        environment: &Environment,
        place: StatePlace,
        generation: u64,
        journal: SegmentJournal,
        fatal: &CancellationToken,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let breakdown = fatal.clone().drop_guard();
        let tally = Arc::<WriteTally>::default();
        let writing = StateWriting {
            place,
            generation,
            journal,
            leases: None,
            environment: environment.clone(),
            tally: Arc::clone(&tally),
        };
        let work = Box::new(move || {
            writing.run(&receiver);
            // The thread ended without a panic.
            drop(breakdown.disarm());
        });
        environment.start_thread("leafd-state", work)?;
        Ok(Self { jobs, tally })
    }

    /// What the writes cost.
    pub(crate) fn tally(&self) -> Arc<WriteTally> {
        Arc::clone(&self.tally)
    }

    async fn write(&self, job: impl FnOnce(Done) -> Job) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(job(done)).map_err(|_| GONE)?;
        wait(outcome).await
    }

    /// Writes records of tags, and returns when they are on disk.
    ///
    /// # Errors
    /// When they may not be on disk.
    pub(crate) async fn segments(&self, records: Vec<(BizTag, TagRecord)>) -> Result<(), String> {
        self.write(|done| Job::Segments(records, done)).await
    }

    /// Raises the high-water marks of tags, and returns when they are on disk. The ranges of a tag stay
    /// as the journal has them. Never lowers a mark.
    ///
    /// # Errors
    /// When they may not be on disk.
    pub(crate) async fn high_water_marks(&self, marks: Vec<(BizTag, u64)>) -> Result<(), String> {
        self.write(|done| Job::HighWaterMarks(marks, done)).await
    }

    /// Has the journal keep of these tags only what is left of their series, before any record that is sent
    /// later. Nothing waits for it.
    pub(crate) fn retire(&self, tags: Vec<(BizTag, RetiredSeries)>) {
        let _ = self.jobs.send(Job::Retire(tags));
    }

    /// Writes the file that says which database the ranges come from, and returns when it is on disk.
    ///
    /// # Errors
    /// When it may not be on disk.
    pub(crate) async fn database(&self, content: String) -> Result<(), String> {
        self.write(|done| Job::Database(content, done)).await
    }

    /// Writes the file of what leafd has seen in the table of witnesses, and returns when it is on disk.
    ///
    /// # Errors
    /// When it may not be on disk.
    pub(crate) async fn witness(
        &self,
        text: impl FnOnce(FileMark) -> String + Send + 'static,
    ) -> Result<(), String> {
        self.write(|done| Job::Witness(Box::new(text), done)).await
    }

    /// Writes leases to this log from now on.
    pub(crate) fn log_leases_to(&self, log: LeaseLog) {
        // If the thread has ended, the calls that wait for it fail.
        let _ = self.jobs.send(Job::LogLeasesTo(Box::new(log)));
    }

    /// Adds a lease to the log, before any record that is sent later. Nothing waits for it.
    pub(crate) fn leased(&self, lease: LeaseLogEntry) {
        let _ = self.jobs.send(Job::Leased(lease));
    }

    /// Like [`Self::segments`], for the last records before leafd ends, which go to a new file.
    ///
    /// # Errors
    /// When they may not be on disk.
    pub(crate) async fn last_segments(
        &self,
        records: Vec<(BizTag, TagRecord)>,
    ) -> Result<(), String> {
        self.write(|done| Job::LastSegments(records, done)).await
    }

    /// Writes the worker file. Sends the record at once, even if nobody polls the future, so that the
    /// later of two records stays. The future ends when the record is on disk.
    ///
    /// # Errors
    /// When the record may not be on disk.
    pub(crate) fn worker(
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

/// The thread's own: where it writes, what it has open, and what it counts.
struct StateWriting {
    place: StatePlace,
    generation: u64,
    journal: SegmentJournal,
    leases: Option<Box<LeaseLog>>,
    environment: Environment,
    tally: Arc<WriteTally>,
}

impl StateWriting {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.carry_out(job);
        }
    }

    fn carry_out(&mut self, job: Job) {
        match job {
            Job::Segments(records, done) => {
                self.write(StateFile::Segments, done, |this| this.journal.append(records));
            }
            Job::HighWaterMarks(marks, done) => {
                self.write(StateFile::Segments, done, |this| this.journal.raise(marks));
            }
            Job::Retire(tags) => {
                tags.iter().for_each(|(tag, left)| self.journal.retire(tag, *left));
            }
            Job::LastSegments(records, done) => {
                self.write(StateFile::Segments, done, |this| this.journal.finish(records));
            }
            Job::Database(content, done) => self.write(StateFile::Database, done, |this| {
                durable::replace(&this.place.database_file(), content.as_bytes()).map(drop)
            }),
            Job::Witness(text, done) => self.write(StateFile::Witness, done, |this| {
                durable::replace_marked(&this.place.witness_file(), text).map(drop)
            }),
            Job::Worker(record, done) => self.write(StateFile::Worker, done, |this| {
                let text = |file| record.write(this.generation, file);
                durable::replace_marked(&this.place.worker_file(), text).map(drop)
            }),
            Job::LogLeasesTo(log) => self.leases = Some(log),
            Job::Leased(lease) => {
                let ours = self.place.check();
                if let Some(log) = &mut self.leases {
                    note(log, ours, &lease);
                }
            }
        }
    }

    /// Writes if the directory is still ours, counts the write, and reports its outcome.
    fn write(
        &mut self,
        file: StateFile,
        done: Done,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) {
        let began = self.environment.now();
        let written = self.place.check().and_then(|()| write(self));
        let writes = self.tally.of(file);
        writes.seconds.record(self.environment.since(began));
        writes.failed.add(u64::from(written.is_err()));
        // The caller may have stopped waiting for the outcome.
        let _ = done.send(written.map_err(|error| error.to_string()));
    }
}

/// Leases go on without their log. `leafd audit` reports the gap.
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
    async fn the_later_of_two_worker_records_stays_in_whichever_order_callers_wait() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::lock(folder.path(), &Environment::system()).unwrap();
        let here = StateOwner::here(Some("m"), "", None);
        let contents = state.open(&here, ForeignPolicy::Refuse).unwrap();
        let (place, fatal) = (state.place(), CancellationToken::new());
        let file = place.worker_file();
        let environment = Environment::system();
        let writer =
            Writer::start(&environment, place, contents.generation, contents.journal, &fatal)
                .unwrap();
        let record = |ceiling_ms| WorkerRecord { ceiling_ms, ..WorkerRecord::fresh() };
        let (first, second) = (writer.worker(record(1)), writer.worker(record(2)));
        second.await.unwrap();
        first.await.unwrap();
        let (written, _) = WorkerRecord::read(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(written.ceiling_ms, 2);
    }
}
