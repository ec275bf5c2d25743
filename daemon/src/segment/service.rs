//! The shell around the buffers: it knows the tags, answers requests from memory, and lets who
//! cannot be answered wait. Locks are short and never held over an await.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaf_client::wire::WireError;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::buffer::Segment;
use super::health::Health;
pub use super::table::Asker;
use super::table::{Entry, Full, Lane, Table};
use super::terms::{Answer, Record, Refusal, Rules, Ticket};
use super::watch::{Watch, WatchedUntil};
use crate::environment::Environment;
use crate::ids::{BizTag, RangeQueue, Runs};
use crate::state::journal::TagRecord;
use crate::state::writer::Writer;
use crate::store::LeaseAsk;
use crate::store::Store;
use crate::supervise;

/// Tags used within this are leased again at start.
const RECENT: Duration = Duration::from_secs(24 * 3600);

/// Calls to the store that are no leases, at the same time: the refresh and an administrator's.
const OTHER_CALLS: usize = 2;

/// Thousands may wait for one lease. So many are answered per lock, so that the serving thread never
/// waits for the whole queue, or for a thread that was preempted while it held the lock.
const ANSWERED_AT_ONCE: usize = 64;

/// What the configuration says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For every buffer.
    pub rules: Rules,
    /// A tag of which this host knows nothing starts at or above this: state was lost, and IDs
    /// below may have been issued from it. 0 when none was.
    pub base: u64,
    /// Whether tags are made on first use.
    pub auto_create: bool,
    /// The step of a tag made so.
    pub default_step: u64,
    /// Most tags in memory.
    pub max_tags: usize,
    /// How often the list of tags is read.
    pub refresh: Duration,
    /// Calls to the store at the same time.
    pub store_calls: usize,
}

/// Segment IDs of all tags. Cheap to clone.
#[derive(Clone)]
pub struct Segments(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) environment: Environment,
    pub(super) store: Arc<dyn Store>,
    pub(super) writer: Writer,
    pub(super) tags: Mutex<Table<Tag>>,
    pub(super) dirty: Mutex<Vec<Arc<Tag>>>,
    pub(super) dirty_signal: Notify,
    pub(super) health: Mutex<Health>,
    /// Whether leases may be tried, for those who wait for it.
    pub(super) open: watch::Sender<bool>,
    pub(super) refresh_now: Notify,
    pub(super) told_of_starvation: Mutex<Option<Instant>>,
    /// People know that the database keeps no tombstones.
    pub(super) told_of_tombstones: AtomicBool,
    /// Turns for leases of tags that have been leased before.
    pub(super) leasing: Semaphore,
    /// Of these, those that may be had ahead of need: there is always one left for a tag that
    /// somebody waits for.
    pub(super) leasing_ahead: Semaphore,
    /// The same for names that are looked up: asking for ever new ones holds up no tag in use.
    pub(super) first_leasing: Semaphore,
    /// Cancelled when a task breaks down that leafd cannot do without.
    pub(super) fatal: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    /// Where leases are taken, whoever finds that one is due.
    background: Handle,
    pub(super) started: Instant,
}

/// Where a request that waits gets its answer.
type Caller = oneshot::Sender<Result<Runs, Refusal>>;

/// An answer that is still to be sent.
type Answered = (Caller, Result<Runs, Refusal>);

/// One tag: its buffer, and who waits for it.
#[derive(Debug)]
pub struct Tag {
    pub(super) name: BizTag,
    inner: Mutex<Inner>,
    /// Somebody has begun to wait.
    pub(super) hurry: Notify,
    /// There is an earlier deadline, or none any more.
    pub(super) deadlines_changed: Notify,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) segment: Segment,
    callers: HashMap<Ticket, Caller>,
    last_ticket: Ticket,
    /// Where the first lease queues, as long as this is only a lookup.
    pub(super) lane: Option<Lane>,
    /// No longer in the table: whoever holds it still must not ask for it.
    pub(super) forgotten: bool,
    /// In the list of those to be looked at by the persister.
    pub(super) listed: bool,
    /// When the watcher of deadlines wakes up; none when there is no watcher.
    pub(super) watched_until: WatchedUntil,
    /// When it was last used, in seconds since 1970.
    pub(super) used_s: u64,
}

/// The answer to a request.
pub enum Outcome {
    /// Here they are.
    Now(Runs),
    /// [`Waiting::outcome`] tells.
    Later(Waiting),
    /// No.
    Refused(WireError),
}

/// A request that waits. When it is dropped before its answer came, it is withdrawn.
pub struct Waiting {
    segments: Segments,
    tag: Arc<Tag>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Result<Runs, Refusal>>,
}

impl Tag {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while it was held would have been in the pure core, which leaves it whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name.
    #[must_use]
    #[inline]
    pub const fn name(&self) -> &BizTag {
        &self.name
    }

    /// Where the first lease queues; none once there was one.
    pub(super) fn lane(&self) -> Option<Lane> {
        self.lock().lane.clone()
    }

    /// A lookup that nobody waits for any more need not queue for the store.
    pub(super) fn tell_if_abandoned(&self) {
        let inner = self.lock();
        let (abandoned, in_vain) = (inner.is_abandoned(), inner.is_watched_in_vain());
        drop(inner);
        if abandoned {
            self.hurry.notify_one();
        }
        if in_vain {
            self.deadlines_changed.notify_one();
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Segments {
    /// Takes over what the journal remembers, and starts the work in the background: writing,
    /// leasing again what was used within the last day, and reading the list of tags. `fatal` is
    /// cancelled when that work breaks down.
    #[must_use]
    pub fn start(
        settings: Settings,
        environment: Environment,
        store: Arc<dyn Store>,
        writer: Writer,
        remembered: &HashMap<BizTag, TagRecord>,
        fatal: &CancellationToken,
    ) -> Self {
        let leases = settings.store_calls.saturating_sub(OTHER_CALLS).max(2);
        let first_leases = (leases / 3).max(1);
        let max_tags = settings.max_tags;
        let (started, seed) = (environment.now(), environment.seed());
        let this = Self(Arc::new(Shared {
            settings,
            environment,
            store,
            writer,
            tags: Mutex::new(Table::new(max_tags, first_leases)),
            dirty: Mutex::default(),
            dirty_signal: Notify::new(),
            health: Mutex::new(Health::new(seed)),
            open: watch::Sender::new(true),
            refresh_now: Notify::new(),
            told_of_starvation: Mutex::default(),
            told_of_tombstones: AtomicBool::new(false),
            leasing: Semaphore::new(leases - first_leases),
            leasing_ahead: Semaphore::new((leases - first_leases - 1).max(1)),
            first_leasing: Semaphore::new(first_leases),
            fatal: fatal.clone(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            background: Handle::current(),
            started,
        }));
        let recent_from = this.unix_seconds().saturating_sub(RECENT.as_secs());
        let mut recent = Vec::new();
        for (name, record) in remembered {
            let restored = Record { floor: record.floor, left: record.left.clone() };
            let mut segment = this.restored(restored);
            let is_recent = record.used_s >= recent_from;
            if is_recent {
                segment.prepare();
            }
            let tag = Arc::new(Tag::new(name.clone(), segment, record.used_s, None));
            if is_recent {
                recent.push(Arc::clone(&tag));
            }
            lock(&this.0.tags).insert(name.clone(), tag);
        }
        supervise::spawn("persist", fatal, this.clone().persist_for_ever());
        supervise::spawn("refresh", fatal, this.clone().refresh_for_ever());
        supervise::spawn("probe", fatal, this.clone().probe_for_ever());
        if let Some(guard) = this.0.store.guard().cloned() {
            supervise::spawn("database", fatal, this.clone().watch_database(guard));
        }
        for tag in &recent {
            this.attend(tag);
        }
        this
    }

    /// A buffer that goes on from what the journal or the table knows of its tag.
    pub(super) fn restored(&self, known: Record) -> Segment {
        Segment::restored(self.0.settings.rules, self.0.environment.seed(), known)
    }

    /// Seconds since 1970; only for judging what is recent.
    pub(super) fn unix_seconds(&self) -> u64 {
        self.0.environment.unix_ms() / 1000
    }

    /// Where a tag may start of which this host has seen nothing above `floor`.
    pub(super) fn or_base(&self, floor: u64) -> u64 {
        if floor == 0 { self.0.settings.base } else { floor }
    }

    /// Has the list of tags read again before its time.
    pub fn refresh_soon(&self) {
        self.0.refresh_now.notify_one();
    }

    /// The clock of the buffers: monotonic, from the start on.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.environment.since(self.0.started)
    }

    /// The fast path: `count` IDs that are ready and lie in one run.
    #[inline]
    #[must_use]
    pub fn take(&self, tag: &Arc<Tag>, count: u32) -> Option<u64> {
        let (first, more_to_do) = tag.lock().segment.take(count)?;
        if more_to_do {
            self.attend(tag);
        }
        Some(first)
    }

    /// The tag of this name, when memory has it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Tag>> {
        lock(&self.0.tags).get(name).cloned()
    }

    /// `count` IDs of the tag `name` now, or by `deadline`. A name that is new here takes a place of
    /// the asker's until it is answered.
    #[must_use]
    pub fn request(&self, name: &BizTag, asker: Asker, count: u32, deadline: Instant) -> Outcome {
        loop {
            match self.find_or_look_up(name, asker) {
                Ok(tag) => {
                    if let Some(outcome) = self.request_of(&tag, count, deadline) {
                        return outcome;
                    }
                }
                Err(refusal) => return Outcome::Refused(refusal.to_wire(name)),
            }
        }
    }

    fn find_or_look_up(&self, name: &BizTag, asker: Asker) -> Result<Arc<Tag>, Refusal> {
        let make = |mark, lane| {
            let known = Record { floor: mark, left: RangeQueue::default() };
            let segment = self.restored(known);
            Tag::new(name.clone(), segment, self.unix_seconds(), Some(lane))
        };
        let found = lock(&self.0.tags).find_or_look_up(name, asker, make);
        found.map_err(|full| match full {
            Full::Tags { limit, removed } => Refusal::TooManyTags { limit, removed },
            Full::Lookups(own) => Refusal::TooManyNew(own),
        })
    }

    /// None when the table has given the tag up.
    fn request_of(&self, tag: &Arc<Tag>, count: u32, deadline: Instant) -> Option<Outcome> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = tag.lock();
        if inner.forgotten {
            return None;
        }
        inner.last_ticket += 1;
        let ticket = inner.last_ticket;
        let until = deadline.saturating_duration_since(self.0.started);
        let answer = inner.segment.request(self.now(), ticket, count, until);
        let mut watch = Watch::Enough;
        if matches!(answer, Answer::Later) {
            inner.callers.insert(ticket, sender);
            watch = inner.watch(until);
        }
        drop(inner);
        if matches!(answer, Answer::Later) {
            tag.hurry.notify_one();
        }
        if self.attend_to_some(tag) {
            // The rest of a long queue is not the business of the thread that serves.
            let (this, tag) = (self.clone(), Arc::clone(tag));
            drop(self.0.background.spawn(async move { this.attend(&tag) }));
        }
        match watch {
            Watch::Start => {
                drop(self.0.background.spawn(self.clone().watch_deadlines(Arc::clone(tag))));
            }
            Watch::Sooner => tag.deadlines_changed.notify_one(),
            Watch::Enough => {}
        }
        Some(match answer {
            Answer::Now(runs) => Outcome::Now(runs),
            Answer::Later => Outcome::Later(Waiting {
                segments: self.clone(),
                tag: Arc::clone(tag),
                ticket,
                receiver,
            }),
            Answer::Refused(refusal) => Outcome::Refused(refusal.to_wire(&tag.name)),
        })
    }

    /// What the caller is told. When the store is down for all, that outdoes what the tag knows.
    fn explain(&self, refusal: Refusal, tag: &BizTag) -> WireError {
        match (refusal, self.store_down()) {
            (Refusal::Store(..), Some((error, next))) => Refusal::Store(error, next).to_wire(tag),
            (refusal, _) => refusal.to_wire(tag),
        }
    }

    /// Does what the buffer of a tag asks for after something has happened to it.
    pub(super) fn attend(&self, tag: &Arc<Tag>) {
        while self.attend_to_some(tag) {}
    }

    /// Says whether there may be more to do.
    fn attend_to_some(&self, tag: &Arc<Tag>) -> bool {
        let mut inner = tag.lock();
        let (answers, more) = inner.next_answers();
        let now = self.now();
        let ask = inner.poll_lease(now);
        // To list a tag wakes another thread, which a refused request must not do.
        let list = !inner.listed && inner.segment.wants_persist(now);
        inner.listed |= list;
        let in_vain = inner.is_watched_in_vain();
        drop(inner);
        if in_vain {
            tag.deadlines_changed.notify_one();
        }
        if let Some(ask) = ask {
            let lease = self.clone().lease(Arc::clone(tag), ask);
            self.0.tasks.spawn_on(lease, &self.0.background);
        }
        if list {
            lock(&self.0.dirty).push(Arc::clone(tag));
            self.0.dirty_signal.notify_one();
        }
        for (caller, outcome) in answers {
            // Whoever hung up meanwhile leaves a gap.
            let _ = caller.send(outcome);
        }
        more
    }

    /// The store has given a first range of what was only a lookup.
    pub(super) fn keep_as_tag(&self, tag: &Arc<Tag>) {
        if tag.lock().lane.take().is_some() {
            lock(&self.0.tags).insert(tag.name.clone(), Arc::clone(tag));
        }
    }

    /// The tag was made or seen in the store: whoever asks for it next has it looked up at once.
    pub(super) fn appeared(&self, name: &BizTag) {
        let tag = lock(&self.0.tags).get_any(name.as_str()).cloned();
        if let Some(tag) = tag {
            tag.lock().segment.appeared();
        }
    }

    /// How many tags memory has, removed ones that are still in use included.
    #[must_use]
    pub fn tags_in_memory(&self) -> usize {
        lock(&self.0.tags).len()
    }

    /// Ends it: leases under way are waited for up to `grace`, nothing is issued any more, and the
    /// disk is told exactly what was not issued.
    ///
    /// # Errors
    /// When the disk does not take it; what was ready is then lost, and nothing is repeated.
    pub async fn close(&self, grace: Duration) -> Result<(), String> {
        self.0.stop.cancel();
        self.0.tasks.close();
        // A lease that is not back by then is lost, as in a crash.
        let _ = tokio::time::timeout(grace, self.0.tasks.wait()).await;
        let tags: Vec<_> = {
            let table = lock(&self.0.tags);
            table.values().chain(table.lookups()).cloned().collect()
        };
        let records = tags.iter().filter_map(|tag| {
            let mut inner = tag.lock();
            let record = inner.segment.close();
            let record = (record.floor > 0).then(|| (tag.name.clone(), inner.to_disk(record)));
            drop(inner);
            self.attend(tag);
            record
        });
        let outcome = self.0.writer.last_segments(records.collect()).await;
        self.0.store.close().await;
        outcome
    }
}

impl Tag {
    pub(super) fn new(name: BizTag, segment: Segment, used_s: u64, lane: Option<Lane>) -> Self {
        let inner = Inner {
            segment,
            callers: HashMap::new(),
            last_ticket: 0,
            lane,
            forgotten: false,
            listed: false,
            watched_until: WatchedUntil::default(),
            used_s,
        };
        let (hurry, deadlines_changed) = (Notify::new(), Notify::new());
        Self { name, inner: Mutex::new(inner), hurry, deadlines_changed }
    }
}

impl Entry for Tag {
    fn evict(&self) -> bool {
        let mut inner = self.lock();
        inner.forgotten |= inner.is_abandoned() && inner.segment.is_idle();
        let forgotten = inner.forgotten;
        drop(inner);
        if forgotten {
            // A task may wait for the store on its behalf.
            self.hurry.notify_one();
        }
        forgotten
    }

    fn retire(&self) -> Option<u64> {
        let mut inner = self.lock();
        let mark = inner.segment.mark_of_removed();
        inner.forgotten |= mark.is_some();
        mark
    }

    fn hasten(&self, lane: &Lane) {
        let mut inner = self.lock();
        if inner.lane.is_some() {
            inner.lane = Some(Arc::clone(lane));
        }
        drop(inner);
        self.hurry.notify_one();
    }
}

impl Inner {
    /// Whether this is a lookup that nobody waits for.
    pub(super) fn is_abandoned(&self) -> bool {
        self.lane.is_some() && !self.segment.is_waited_for()
    }

    /// What the tag wants of the store now.
    pub(super) fn poll_lease(&mut self, now: Duration) -> Option<LeaseAsk> {
        // In the place of one that is forgotten there may be another.
        if self.forgotten { None } else { self.segment.poll_lease(now) }
    }

    /// The next requests that have their answers, to be sent when the lock is released: sending one
    /// wakes a thread. And whether there may be more.
    fn next_answers(&mut self) -> (Vec<Answered>, bool) {
        let mut answers = Vec::new();
        for _ in 0..ANSWERED_AT_ONCE {
            let Some((ticket, outcome)) = self.segment.poll_done() else { return (answers, false) };
            // Not that of one whose caller hung up.
            answers.extend(self.callers.remove(&ticket).map(|caller| (caller, outcome)));
        }
        (answers, true)
    }

    pub(super) fn to_disk(&self, record: Record) -> TagRecord {
        TagRecord { floor: record.floor, used_s: self.used_s, left: record.left }
    }
}

impl Waiting {
    /// The answer, at the deadline at the latest. Needs no timers where it is waited for.
    ///
    /// # Errors
    /// What the tag's buffer says.
    pub async fn outcome(mut self) -> Result<Runs, WireError> {
        let answer = (&mut self.receiver).await.unwrap_or(Err(Refusal::Deadline));
        answer.map_err(|refusal| self.segments.explain(refusal, &self.tag.name))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.tag.lock().callers.remove(&self.ticket).is_none() {
            return;
        }
        // Looking for it takes a while where many wait, and connections end on the serving thread.
        let (tag, ticket) = (Arc::clone(&self.tag), self.ticket);
        self.segments.0.background.spawn(async move {
            tag.lock().segment.withdraw(ticket);
            tag.tell_if_abandoned();
        });
    }
}
