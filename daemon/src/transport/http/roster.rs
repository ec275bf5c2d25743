//! The open connections, what each of them is doing and since when. When there are too many, the
//! slowest makes room for a new one, then the one that is idle for longest; a peer that holds more
//! than half of them goes first. If leafd works on a request of each of them, a few more are accepted
//! in the reserve, which serves probes and scrapes alone. So neither callers that send nothing, nor
//! those that read nothing, nor those that wait for IDs keep a probe out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::limits::HttpLimits;
use super::peer::HttpPeer;
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
    /// Bytes of a long answer that the client has not taken yet; 0 for other answers.
    unread: AtomicU64,
    requests: AtomicU32,
}

impl HttpConnection {
    pub(super) fn new(now_ms: u64) -> Self {
        let state = Self {
            packed: AtomicU64::new(0),
            stalled_ms: AtomicU64::new(0),
            unread: AtomicU64::new(0),
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

    /// Whether the client has stopped reading.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_ms.load(Ordering::Relaxed) > 0
    }

    /// An answer of this many bytes begins, which takes more than one write.
    pub(super) fn begin_long_answer(&self, bytes: usize) {
        self.unread.store(bytes as u64, Ordering::Relaxed);
    }

    /// The client has taken bytes of an answer.
    pub(super) fn note_written(&self, bytes: usize) {
        let unread = self.unread.load(Ordering::Relaxed);
        if unread > 0 {
            self.unread.store(unread.saturating_sub(bytes as u64), Ordering::Relaxed);
        }
    }

    /// Everything so far is written: the answer is, unless more of it follows.
    pub(super) fn note_flush(&self) {
        if self.phase() == HttpPhase::Answer && self.unread.load(Ordering::Relaxed) == 0 {
            self.turn(HttpPhase::Idle);
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
            // Memory keeps a long answer until the client has it, so reading slowly is no way around.
            HttpPhase::Answer if self.unread.load(Ordering::Relaxed) > 0 => limits.write_timeout,
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
    usual: HashMap<u64, RosterEntry>,
    reserve: HashMap<u64, RosterEntry>,
    next_key: u64,
}

#[derive(Debug)]
struct RosterEntry {
    state: Arc<HttpConnection>,
    peer: HttpPeer,
    task: Option<AbortHandle>,
}

/// Connections beyond the limit, which only probes and scrapes may use.
pub(super) const RESERVE: usize = 16;

/// The kind of place that a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// For every request.
    Usual,
    /// For one request of a probe or a scrape.
    Reserve,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct RosterPlace {
    roster: Roster,
    pub(super) key: u64,
    pub(super) kind: PlaceKind,
}

impl Drop for RosterPlace {
    fn drop(&mut self) {
        lock(&self.roster.0).of(self.kind).remove(&self.key);
    }
}

impl Roster {
    /// Takes in a connection of `peer`, of at most `limit` usual ones, and ends others where it has
    /// to. `None` if leafd works on a request of each of them, those in the reserve included.
    pub(super) fn admit(
        &self,
        state: &Arc<HttpConnection>,
        peer: HttpPeer,
        limit: usize,
    ) -> Option<RosterPlace> {
        let mut entries = lock(&self.0);
        let kind = if make_room(&mut entries.usual, limit) {
            PlaceKind::Usual
        } else if make_room(&mut entries.reserve, RESERVE) {
            PlaceKind::Reserve
        } else {
            return None;
        };
        let key = entries.next_key;
        entries.next_key += 1;
        let state = Arc::clone(state);
        entries.of(kind).insert(key, RosterEntry { state, peer, task: None });
        Some(RosterPlace { roster: self.clone(), key, kind })
    }

    /// Says which task to end when the connection makes room.
    pub(super) fn set_task(&self, kind: PlaceKind, key: u64, task: AbortHandle) {
        if let Some(entry) = lock(&self.0).of(kind).get_mut(&key) {
            entry.task = Some(task);
        }
    }

    /// Open connections: usual ones, and those in the reserve.
    pub(super) fn count(&self) -> (usize, usize) {
        let entries = lock(&self.0);
        (entries.usual.len(), entries.reserve.len())
    }
}

impl Entries {
    const fn of(&mut self, kind: PlaceKind) -> &mut HashMap<u64, RosterEntry> {
        match kind {
            PlaceKind::Usual => &mut self.usual,
            PlaceKind::Reserve => &mut self.reserve,
        }
    }
}

/// Ends connections until there are fewer than `limit`. Returns false if leafd works on a request of
/// each that is left.
fn make_room(open: &mut HashMap<u64, RosterEntry>, limit: usize) -> bool {
    while open.len() >= limit {
        let greedy = greedy_peer(open);
        let ranked = open.iter().filter_map(|(key, entry)| {
            entry.task.as_ref()?;
            let is_polite = greedy != Some(entry.peer);
            Some(((is_polite, entry.state.rank()?), *key))
        });
        let Some((_, key)) = ranked.min() else { return false };
        if let Some(entry) = open.remove(&key)
            && let Some(task) = entry.task
        {
            task.abort();
        }
    }
    true
}

/// The peer that holds more than half of the connections, if there is one.
fn greedy_peer(open: &HashMap<u64, RosterEntry>) -> Option<HttpPeer> {
    let mut counts = HashMap::<HttpPeer, usize>::new();
    for entry in open.values() {
        *counts.entry(entry.peer).or_default() += 1;
    }
    counts.into_iter().find_map(|(peer, count)| (count * 2 > open.len()).then_some(peer))
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

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

    #[test]
    fn a_client_that_reads_a_long_answer_slowly_gains_nothing() {
        let state = HttpConnection::new(0);
        state.enter(HttpPhase::Work, 50);
        state.begin_long_answer(1000);
        state.turn(HttpPhase::Answer);
        for written in [0, 100, 899] {
            state.note_written(written);
            state.note_flush();
            assert_eq!((state.phase(), state.due_ms(&limits())), (HttpPhase::Answer, Some(250)));
        }
        // The head of the answer counts as well.
        state.note_written(101);
        state.note_flush();
        assert_eq!(state.phase(), HttpPhase::Idle);
    }

    /// Somebody who opens connections.
    struct Opener(Roster);

    impl Opener {
        /// A connection of `peer` that is in `phase`, and its task.
        fn open(
            &self,
            peer: HttpPeer,
            limit: usize,
            phase: HttpPhase,
            since: u64,
        ) -> Option<(RosterPlace, JoinHandle<()>)> {
            let state = Arc::new(HttpConnection::new(0));
            state.enter(phase, since);
            let place = self.0.admit(&state, peer, limit)?;
            let task = tokio::spawn(std::future::pending::<()>());
            self.0.set_task(place.kind, place.key, task.abort_handle());
            Some((place, task))
        }
    }

    const ONE: HttpPeer = HttpPeer::User(1);
    const OTHER: HttpPeer = HttpPeer::User(2);

    #[tokio::test]
    async fn slow_connections_make_room_first_then_idle_ones_and_working_ones_never() {
        let opener = Opener(Roster::default());
        let open = |phase, since| opener.open(ONE, 4, phase, since).unwrap();
        let (_working, works) = open(HttpPhase::Work, 1);
        let (_idle, idles) = open(HttpPhase::Idle, 2);
        let (_older, olds) = open(HttpPhase::Head, 3);
        let (_newer, news) = open(HttpPhase::Body, 4);
        let _first = open(HttpPhase::Work, 5);
        assert!(olds.await.unwrap_err().is_cancelled());
        let _second = open(HttpPhase::Work, 6);
        assert!(news.await.unwrap_err().is_cancelled());
        let (third, _) = open(HttpPhase::Work, 7);
        assert!(idles.await.unwrap_err().is_cancelled());
        assert_eq!((opener.0.count(), third.kind), ((4, 0), PlaceKind::Usual));
        let (beyond, _) = open(HttpPhase::Head, 8);
        assert_eq!((opener.0.count(), beyond.kind), ((4, 1), PlaceKind::Reserve));
        assert!(!works.is_finished());
    }

    #[tokio::test]
    async fn the_reserve_is_bounded_and_a_slow_connection_there_makes_room_too() {
        let opener = Opener(Roster::default());
        let _usual = opener.open(ONE, 1, HttpPhase::Work, 1).unwrap();
        let (_slow, slows) = opener.open(ONE, 1, HttpPhase::Head, 2).unwrap();
        let mut working: Vec<_> =
            (0..RESERVE).map(|_| opener.open(OTHER, 1, HttpPhase::Work, 3).unwrap()).collect();
        assert!(slows.await.unwrap_err().is_cancelled());
        assert!(opener.open(OTHER, 1, HttpPhase::Head, 4).is_none());
        working.pop();
        assert!(opener.open(OTHER, 1, HttpPhase::Head, 5).is_some());
    }

    #[tokio::test]
    async fn whoever_holds_more_than_half_of_the_connections_makes_room_first() {
        let opener = Opener(Roster::default());
        let open = |peer, phase, since| opener.open(peer, 5, phase, since).unwrap();
        let (_polite, polites) = open(OTHER, HttpPhase::Head, 1);
        let (_quiet, quiets) = open(OTHER, HttpPhase::Idle, 2);
        let mut greedy: Vec<_> = (3..6).map(|since| open(ONE, HttpPhase::Idle, since)).collect();
        for since in 6..20 {
            greedy.push(open(ONE, HttpPhase::Idle, since));
            let (_, oldest) = greedy.remove(0);
            assert!(oldest.await.unwrap_err().is_cancelled());
        }
        assert!(!polites.is_finished() && !quiets.is_finished());
    }
}
