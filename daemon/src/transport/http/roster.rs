//! The open connections, what each of them is doing and since when. When there are too many, the
//! slowest makes room for a new one, then the one that is idle for longest. So neither callers that
//! send nothing nor those that read nothing keep a probe out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::limits::HttpLimits;
use crate::lock::lock;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpPhase {
    /// The head of a request arrives, or has to: the connection is new.
    Head,
    /// The body of a request arrives.
    Body,
    /// leafd works on the answer.
    Work,
    /// leafd writes the answer.
    Answer,
    /// leafd writes an answer that goes on and on.
    Stream,
    /// The answer is written, and no other request has begun.
    Idle,
    /// leafd has closed its side, and discards what the client still sends.
    End,
    /// Bytes of another request have come, and nobody has looked at them. Usually they are the whole
    /// request, so the clock is read only if they are not.
    Begun,
}

impl HttpPhase {
    const ALL: [Self; 8] = [
        Self::Head,
        Self::Body,
        Self::Work,
        Self::Answer,
        Self::Stream,
        Self::Idle,
        Self::End,
        Self::Begun,
    ];

    fn of(packed: u64) -> Self {
        let index = usize::try_from(packed & 7).unwrap_or_default();
        Self::ALL.get(index).copied().unwrap_or(Self::Idle)
    }
}

/// A connection as the roster sees it. Times are in ms since the server's start.
#[derive(Debug)]
pub(super) struct HttpConnection {
    /// The phase in the lowest three bits, the time of its begin above them.
    packed: AtomicU64,
    /// When the client stopped reading; 0 while it reads.
    stalled_ms: AtomicU64,
    requests: AtomicU32,
}

impl HttpConnection {
    pub(super) fn new(now_ms: u64) -> Self {
        let state = Self {
            packed: AtomicU64::new(0),
            stalled_ms: AtomicU64::new(0),
            requests: AtomicU32::new(0),
        };
        state.enter(HttpPhase::Head, now_ms);
        state
    }

    pub(super) fn enter(&self, phase: HttpPhase, now_ms: u64) {
        self.packed.store(now_ms << 3 | phase as u64, Ordering::Relaxed);
    }

    /// Enters another phase without a look at the clock: the time stays.
    pub(super) fn turn(&self, phase: HttpPhase) {
        self.enter(phase, self.since_ms());
    }

    pub(super) fn phase(&self) -> HttpPhase {
        HttpPhase::of(self.packed.load(Ordering::Relaxed))
    }

    fn since_ms(&self) -> u64 {
        self.packed.load(Ordering::Relaxed) >> 3
    }

    /// Notes whether the client reads.
    pub(super) fn note_write(&self, stalled: bool, now_ms: impl Fn() -> u64) {
        let before = self.stalled_ms.load(Ordering::Relaxed);
        match (stalled, before) {
            (true, 0) => self.stalled_ms.store(now_ms().max(1), Ordering::Relaxed),
            (false, 1..) => self.stalled_ms.store(0, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Counts a request. Returns how many there were.
    pub(super) fn count_request(&self) -> u32 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// When the connection has to have done something else, in ms since the server's start; `None`
    /// while it waits for leafd.
    pub(super) fn due_ms(&self, limits: &HttpLimits) -> Option<u64> {
        let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let stalled = self.stalled_ms.load(Ordering::Relaxed);
        if stalled > 0 {
            return Some(stalled.saturating_add(ms(limits.write_timeout)));
        }
        let limit = match self.phase() {
            HttpPhase::Head => limits.request_timeout,
            HttpPhase::Idle => limits.idle_timeout,
            // The reader of the body has this limit itself, and answers. An end at the same moment would
            // cost the answer.
            HttpPhase::Body
            | HttpPhase::Begun
            | HttpPhase::Work
            | HttpPhase::Answer
            | HttpPhase::Stream
            | HttpPhase::End => return None,
        };
        Some(self.since_ms().saturating_add(ms(limit)))
    }

    /// How soon it makes room for others: the lowest first. `None` if it does not.
    fn rank(&self) -> Option<(u8, u64)> {
        let stalled = self.stalled_ms.load(Ordering::Relaxed);
        if stalled > 0 {
            return Some((0, stalled));
        }
        match self.phase() {
            HttpPhase::Head | HttpPhase::Body | HttpPhase::End => Some((0, self.since_ms())),
            HttpPhase::Idle => Some((1, self.since_ms())),
            HttpPhase::Stream => Some((2, self.since_ms())),
            HttpPhase::Begun | HttpPhase::Work | HttpPhase::Answer => None,
        }
    }
}

/// The open connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Roster(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    open: HashMap<u64, RosterEntry>,
    next_key: u64,
}

#[derive(Debug)]
struct RosterEntry {
    state: Arc<HttpConnection>,
    task: Option<AbortHandle>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct RosterPlace {
    roster: Roster,
    pub(super) key: u64,
}

impl Drop for RosterPlace {
    fn drop(&mut self) {
        lock(&self.roster.0).open.remove(&self.key);
    }
}

impl Roster {
    pub(super) fn add(&self, state: &Arc<HttpConnection>) -> RosterPlace {
        let mut entries = lock(&self.0);
        let key = entries.next_key;
        entries.next_key += 1;
        entries.open.insert(key, RosterEntry { state: Arc::clone(state), task: None });
        RosterPlace { roster: self.clone(), key }
    }

    /// Says which task to end when the connection makes room.
    pub(super) fn set_task(&self, key: u64, task: AbortHandle) {
        if let Some(entry) = lock(&self.0).open.get_mut(&key) {
            entry.task = Some(task);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).open.len()
    }

    /// Ends connections until there are fewer than `limit`. Returns false if the rest of them have a
    /// request that leafd works on.
    pub(super) fn make_room(&self, limit: usize) -> bool {
        let mut entries = lock(&self.0);
        while entries.open.len() >= limit {
            let ranked = entries.open.iter().filter_map(|(key, entry)| {
                entry.task.as_ref()?;
                Some((entry.state.rank()?, *key))
            });
            let Some((_, key)) = ranked.min() else { return false };
            if let Some(entry) = entries.open.remove(&key)
                && let Some(task) = entry.task
            {
                task.abort();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> HttpLimits {
        HttpLimits {
            max_connections: 4,
            idle_timeout: Duration::from_millis(1000),
            request_timeout: Duration::from_millis(100),
            write_timeout: Duration::from_millis(200),
            hosts: Vec::new(),
            leaf_errors: false,
            metrics: crate::config::MetricsAudience::Everybody,
        }
    }

    #[test]
    fn every_phase_that_waits_for_the_client_has_an_end() {
        let state = HttpConnection::new(50);
        assert_eq!((state.phase(), state.due_ms(&limits())), (HttpPhase::Head, Some(150)));
        for (phase, due) in [
            // The reader of the body ends it.
            (HttpPhase::Body, None),
            (HttpPhase::Idle, Some(1060)),
            (HttpPhase::Work, None),
            (HttpPhase::Stream, None),
        ] {
            state.enter(phase, 60);
            assert_eq!((state.phase(), state.due_ms(&limits())), (phase, due));
        }
        state.note_write(true, || 70);
        state.note_write(true, || 90);
        assert_eq!(state.due_ms(&limits()), Some(270), "a client gains nothing by stalling twice");
        state.note_write(false, || 95);
        assert_eq!(state.due_ms(&limits()), None);
    }

    #[tokio::test]
    async fn slow_connections_make_room_first_then_idle_ones_and_working_ones_never() {
        let roster = Roster::default();
        let open = |phase, since| {
            let state = Arc::new(HttpConnection::new(0));
            state.enter(phase, since);
            let place = roster.add(&state);
            let task = tokio::spawn(std::future::pending::<()>());
            roster.set_task(place.key, task.abort_handle());
            (place, task)
        };
        let (_working, works) = open(HttpPhase::Work, 1);
        let (_idle, idles) = open(HttpPhase::Idle, 2);
        let (_older, olds) = open(HttpPhase::Head, 3);
        let (_newer, news) = open(HttpPhase::Body, 4);
        assert!(roster.make_room(4));
        assert!(olds.await.unwrap_err().is_cancelled());
        assert!(roster.make_room(3));
        assert!(news.await.unwrap_err().is_cancelled());
        assert!(roster.make_room(2));
        assert!(idles.await.unwrap_err().is_cancelled());
        assert!(!roster.make_room(1));
        assert_eq!(roster.count(), 1);
        assert!(!works.is_finished());
    }
}
