//! The shell around the buffers: which tags there are, the fast path, and the work that a buffer
//! asks for. Requests that have to wait are in `request.rs`.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::buffer::TagBuffer;
use super::health::StoreHealth;
use super::lease_tally::LeaseTally;
use super::messages::{BufferRecord, BufferRules, RetiredCounts};
use super::table::{NameHash, NameHasher, TagPlace, TagTable};
use super::tag::Tag;
use crate::environment::Environment;
use crate::ids::{BizTag, RangeQueue};
use crate::state::journal::{RetiredDays, TagRecord};
use crate::state::writer::Writer;
use crate::store::Store;
use crate::supervise;

/// A start leases again for tags that were used within this time.
const RECENT: Duration = Duration::from_secs(24 * 3600);

/// Connections of the store that leases leave free: for the refresh and for an administrator's
/// call.
const OTHER_CALLS: usize = 2;

/// The configuration of all tags.
#[derive(Debug, Clone)]
pub(crate) struct SegmentSettings {
    pub(crate) rules: BufferRules,
    /// A tag of which this host knows nothing starts at or above this: state was lost, and lower
    /// IDs may have been issued from it. 0 if no state was lost.
    pub(crate) base: u64,
    /// How long after its day, and unused, a tag of a day stays in memory; zero: for ever.
    pub(crate) retire_after: Duration,
    /// Whether the first request for a name creates its tag.
    pub(crate) auto_create: bool,
    /// The step of a tag that is created without one.
    pub(crate) default_step: u64,
    /// How many tags memory may hold.
    pub(crate) max_tags: usize,
    /// Time between two refreshes.
    pub(crate) refresh: Duration,
    /// How many calls to the store may be in flight.
    pub(crate) store_calls: usize,
}

/// Segment IDs of all tags. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Segments(pub(super) Arc<SegmentsShared>);

pub(super) struct SegmentsShared {
    pub(super) settings: SegmentSettings,
    pub(super) environment: Environment,
    pub(super) store: Arc<dyn Store>,
    pub(super) writer: Writer,
    pub(super) tags: Mutex<TagTable<Tag>>,
    hasher: NameHasher,
    /// Tags with a record to write.
    pub(super) dirty: Mutex<Vec<Arc<Tag>>>,
    pub(super) dirty_signal: Notify,
    pub(super) health: Mutex<StoreHealth>,
    /// Whether leases may be tried, for the tasks that wait for that.
    pub(super) open: watch::Sender<bool>,
    pub(super) refresh_now: Notify,
    /// IDs and leases of tags that have left memory.
    pub(super) retired_counts: Mutex<RetiredCounts>,
    /// Each lease holds it from before its call until its range is in memory.
    pub(super) lease_gate: RwLock<()>,
    /// When the log last said that requests had to wait for a lease.
    pub(super) starvation_logged: Mutex<Option<Instant>>,
    pub(super) lease_tally: LeaseTally,
    /// The log has said that the database keeps no tombstones.
    pub(super) tombstones_logged: AtomicBool,
    /// Permits to lease for tags that have leased before.
    pub(super) leasing: Semaphore,
    /// Permits to lease ahead of need, needed in addition. There is one fewer, so that one is
    /// always left for a tag that a request waits for.
    pub(super) leasing_ahead: Semaphore,
    /// Permits to lease for names that are looked up, so that many new names hold up no tag in use.
    pub(super) first_leasing: Semaphore,
    /// Cancelled when an essential task panics.
    pub(super) fatal: CancellationToken,
    /// Leases, and everything else that a clean stop waits for.
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    /// Runs the leases, whichever thread finds that one is due.
    pub(super) background: Handle,
    pub(super) started: Instant,
}

#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Segments {
    /// Takes over what the journal remembers and starts the background tasks. `fatal` is cancelled
    /// if one of them panics.
    pub(crate) fn start(
        settings: SegmentSettings,
        environment: Environment,
        store: Arc<dyn Store>,
        writer: Writer,
        (remembered, retired): (&HashMap<BizTag, TagRecord>, RetiredDays),
        fatal: &CancellationToken,
    ) -> Self {
        let shared = SegmentsShared::new(settings, environment, store, writer, fatal.clone());
        let this = Self(Arc::new(shared));
        lock(&this.0.tags).remember_retired(retired);
        let recent = this.restore(remembered);
        this.start_tasks();
        for tag in &recent {
            this.attend(tag);
        }
        this
    }

    /// Puts the tags of the journal into the table. Returns those that will lease before they are
    /// asked.
    fn restore(&self, remembered: &HashMap<BizTag, TagRecord>) -> Vec<Arc<Tag>> {
        let recent_from = self.unix_seconds().saturating_sub(RECENT.as_secs());
        let mut table = lock(&self.0.tags);
        let mut recent = Vec::new();
        for (name, record) in remembered {
            let TagRecord { floor, used_s, left } = record;
            let mut buffer = self.buffer(*floor, left.clone());
            let is_recent = *used_s >= recent_from;
            if is_recent {
                buffer.prepare();
            }
            let tag = Arc::new(Tag::new(name.clone(), buffer, *used_s, None));
            if is_recent {
                recent.push(Arc::clone(&tag));
            }
            table.insert(name.clone(), tag);
        }
        recent
    }

    fn start_tasks(&self) {
        let fatal = &self.0.fatal;
        supervise::spawn("persist", fatal, self.clone().persist_for_ever());
        supervise::spawn("refresh", fatal, self.clone().refresh_for_ever());
        supervise::spawn("probe", fatal, self.clone().probe_for_ever());
        supervise::spawn("witness", fatal, self.clone().attend_to_witness());
        if let Some(guard) = self.0.store.guard().cloned() {
            supervise::spawn("database", fatal, self.clone().watch_database(guard));
        }
    }

    fn buffer(&self, high_water_mark: u64, left: RangeQueue) -> TagBuffer {
        let record = BufferRecord { high_water_mark, left };
        TagBuffer::restored(self.0.settings.rules, self.0.environment.seed(), record)
    }

    /// The buffer of a tag of which this host knows only the high-water mark; 0 if not even that.
    pub(super) fn empty_buffer(&self, high_water_mark: u64) -> TagBuffer {
        self.buffer(high_water_mark, RangeQueue::default())
    }

    /// Seconds since 1970, only to judge what was used recently.
    pub(super) fn unix_seconds(&self) -> u64 {
        self.0.environment.unix_ms() / 1000
    }

    /// The high-water mark to lease with: the base for a tag that this host has never seen.
    pub(super) fn or_base(&self, high_water_mark: u64) -> u64 {
        if high_water_mark == 0 { self.0.settings.base } else { high_water_mark }
    }

    /// Has the list of tags read again ahead of time.
    pub(crate) fn refresh_soon(&self) {
        self.0.refresh_now.notify_one();
    }

    /// The clock of the buffers: time since the start.
    pub(super) fn now(&self) -> Duration {
        self.0.environment.since(self.0.started)
    }

    /// The fast path: `count` IDs that are ready and lie in one run.
    #[inline]
    pub(crate) fn take(&self, tag: &Arc<Tag>, count: u32) -> Option<u64> {
        let (first, more_to_do) = tag.lock().buffer.take(count)?;
        if more_to_do {
            self.attend(tag);
        }
        Some(first)
    }

    /// The hash of a name, for [`Self::look_for`] and [`Self::take_of`].
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        self.0.hasher.hash(name)
    }

    /// As [`Self::take`], for a tag that the caller does not keep. `None` as well if memory has no tag of
    /// this name, or if another thread has locked the tag: nobody waits for a tag with the table in hand.
    #[inline]
    pub(crate) fn take_of(&self, place: TagPlace, name: &str, count: u32) -> Option<u64> {
        let table = lock(&self.0.tags);
        let tag = table.get_near(place, name)?;
        let (first, more_to_do) = tag.try_lock()?.buffer.take(count)?;
        if more_to_do {
            let tag = Arc::clone(tag);
            drop(table);
            self.attend(&tag);
        }
        Some(first)
    }

    /// Notes where the tags of names with these hashes are, which requests will name in a moment, and has the
    /// processor fetch them, all at the same time.
    pub(crate) fn look_for(&self, hashes: &[NameHash], places: &mut Vec<TagPlace>) {
        let table = lock(&self.0.tags);
        for hash in hashes {
            let (place, tag) = table.guess(*hash);
            places.push(place);
            if let Some(tag) = tag {
                tag.prefetch();
            }
        }
    }

    /// The tag of this name, if memory has it.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tag>> {
        lock(&self.0.tags).get(name).cloned()
    }

    /// How many tags memory has, including removed ones that are not yet drained.
    pub(crate) fn tags_in_memory(&self) -> usize {
        lock(&self.0.tags).len()
    }

    /// Does everything that a tag's buffer asks for after an event.
    pub(super) fn attend(&self, tag: &Arc<Tag>) {
        while self.attend_to_some(tag) {}
    }

    /// As [`Self::attend`], for a bounded time. Returns whether there may be more to do.
    pub(super) fn attend_to_some(&self, tag: &Arc<Tag>) -> bool {
        let mut state = tag.lock();
        let (answers, more) = state.next_answers();
        let now = self.now();
        let ask = state.poll_lease(now);
        // Listing a tag wakes another thread, which a refused request must not do.
        let write = !state.is_dirty && state.buffer.wants_persist(now);
        state.is_dirty |= write;
        let timer_is_useless = state.timer_is_useless();
        drop(state);
        if timer_is_useless {
            tag.deadlines_changed.notify_one();
        }
        if let Some(ask) = ask {
            let lease = self.clone().lease(Arc::clone(tag), ask);
            self.0.tasks.spawn_on(lease, &self.0.background);
        }
        if write {
            lock(&self.0.dirty).push(Arc::clone(tag));
            self.0.dirty_signal.notify_one();
        }
        for (caller, outcome) in answers {
            // IDs for a caller that hung up meanwhile are lost: a gap.
            let _ = caller.send(outcome);
        }
        more
    }

    /// The store granted a first range: a lookup becomes a tag.
    pub(super) fn keep_as_tag(&self, tag: &Arc<Tag>) {
        if tag.lock().lane.take().is_some() {
            lock(&self.0.tags).insert(tag.name().clone(), Arc::clone(tag));
        }
    }

    /// The tag was created or seen in the store: the next request looks it up at once.
    pub(super) fn appeared(&self, name: &BizTag) {
        let tag = lock(&self.0.tags).get_any(name.as_str()).cloned();
        if let Some(tag) = tag {
            tag.lock().buffer.appeared();
        }
    }
}

impl SegmentsShared {
    fn new(
        settings: SegmentSettings,
        environment: Environment,
        store: Arc<dyn Store>,
        writer: Writer,
        fatal: CancellationToken,
    ) -> Self {
        let leases = settings.store_calls.saturating_sub(OTHER_CALLS).max(2);
        let first_leases = (leases / 3).max(1);
        let next_leases = leases - first_leases;
        let (started, seed) = (environment.now(), environment.seed());
        let hasher = NameHasher::default();
        let tags = TagTable::new(settings.max_tags, first_leases, hasher.clone());
        Self {
            tags: Mutex::new(tags),
            hasher,
            settings,
            environment,
            store,
            writer,
            dirty: Mutex::default(),
            dirty_signal: Notify::new(),
            health: Mutex::new(StoreHealth::new(seed)),
            open: watch::Sender::new(true),
            refresh_now: Notify::new(),
            retired_counts: Mutex::default(),
            lease_gate: RwLock::default(),
            starvation_logged: Mutex::default(),
            lease_tally: LeaseTally::default(),
            tombstones_logged: AtomicBool::new(false),
            leasing: Semaphore::new(next_leases),
            leasing_ahead: Semaphore::new((next_leases - 1).max(1)),
            first_leasing: Semaphore::new(first_leases),
            fatal,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            background: Handle::current(),
            started,
        }
    }
}
