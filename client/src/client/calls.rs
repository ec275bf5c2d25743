//! The calls of a connection: which are queued, which are in flight, and which were abandoned in
//! flight. No IO and no clock: the time is an argument, bytes go into a buffer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::{Error, ProtocolError};
use crate::session::{CheckedCall, ConnectionFailure};
use crate::wire::Reply;

/// How long a connection has to be silent before an overdue call ends it, if others wait on it. Without this, a
/// caller with short timeouts would make the client resend the calls of patient callers again and again.
const SILENCE: Duration = Duration::from_secs(1);

/// Delivers the result of a call to its caller.
pub(super) type ReplySender = oneshot::Sender<Result<Reply, Error>>;

/// A call without a result yet.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) call: CheckedCall<Box<str>>,
    pub(super) deadline: Instant,
    pub(super) caller: ReplySender,
}

/// A call in flight, and when it was sent.
#[derive(Debug)]
struct SentCall {
    pending: PendingCall,
    at: Instant,
}

/// The daemon does not answer; the connection has to be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StuckConnection;

impl From<StuckConnection> for ConnectionFailure {
    fn from(StuckConnection: StuckConnection) -> Self {
        Self::io(io::ErrorKind::TimedOut, "the daemon stopped answering")
    }
}

/// Every call without a result.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    /// By ID, so calls are sent in the order in which they were made.
    queued: BTreeMap<u64, PendingCall>,
    sent: HashMap<u64, SentCall>,
    /// In flight without a caller. The daemon still counts them.
    abandoned: HashSet<u64>,
    max_in_flight: usize,
    last_heard: Option<Instant>,
    /// Since when the daemon owes an answer and is silent.
    quiet_since: Option<Instant>,
}

impl CallTable {
    /// Queues a new call.
    pub(super) fn add(&mut self, id: u64, call: PendingCall) {
        self.queued.insert(id, call);
    }

    /// Whether a call is queued.
    pub(super) fn any_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Whether a call is queued and the daemon's limit allows it to be sent.
    pub(super) fn may_send(&self) -> bool {
        self.any_queued() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.sent.len() + self.abandoned.len() < self.max_in_flight
    }

    /// Whether a caller waits for an answer to a call in flight.
    pub(super) fn any_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Starts on a new connection, which takes `max_in_flight` requests at a time.
    pub(super) fn connected(&mut self, max_in_flight: usize) {
        self.max_in_flight = max_in_flight;
        self.last_heard = None;
        self.quiet_since = None;
    }

    /// Appends queued calls to `out` until it holds `enough` bytes or the daemon's limit is
    /// reached.
    pub(super) fn send(&mut self, now: Instant, enough: usize, out: &mut Vec<u8>) {
        while out.len() < enough && self.has_room() {
            let Some((id, pending)) = self.queued.pop_first() else { return };
            if self.sent.is_empty() && self.abandoned.is_empty() {
                self.quiet_since = Some(now);
            }
            pending.call.encode(id, pending.deadline.saturating_duration_since(now), out);
            self.sent.insert(id, SentCall { pending, at: now });
        }
    }

    /// Notes that bytes arrived from the daemon.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = Some(now);
        self.quiet_since = Some(now);
    }

    /// Passes a reply to its caller.
    pub(super) fn answer(&mut self, id: u64, reply: Reply) -> Result<(), ProtocolError> {
        match self.sent.remove(&id) {
            // If the caller is gone, its IDs become a gap, which is harmless.
            Some(sent) => drop(sent.pending.caller.send(Ok(reply))),
            None if self.abandoned.remove(&id) => {}
            None => return Err(ProtocolError::Unasked(id)),
        }
        Ok(())
    }

    /// Queues a call again that the stopping daemon turned away.
    pub(super) fn repeat(&mut self, id: u64) -> Result<(), ProtocolError> {
        match self.sent.remove(&id) {
            Some(sent) => drop(self.queued.insert(id, sent.pending)),
            None if self.abandoned.remove(&id) => {}
            None => return Err(ProtocolError::Unasked(id)),
        }
        Ok(())
    }

    /// Drops a call whose caller is gone. `overdue` says that the caller's deadline passed.
    ///
    /// A daemon answers within the timeout of a request, if only with an error. The connection is
    /// therefore stuck if a call is overdue and nothing at all has arrived since it was sent; if other
    /// calls are in flight, only after [`SILENCE`]. It is also stuck if abandoned calls fill the
    /// daemon's limit.
    pub(super) fn forget(
        &mut self,
        now: Instant,
        id: u64,
        overdue: bool,
    ) -> Result<(), StuckConnection> {
        if self.queued.remove(&id).is_some() {
            return Ok(());
        }
        let Some(sent) = self.sent.remove(&id) else { return Ok(()) };
        self.abandoned.insert(id);
        let silent = self.last_heard.is_none_or(|heard| heard < sent.at);
        let long = self.quiet_since.is_some_and(|since| now.duration_since(since) >= SILENCE);
        if (overdue && silent && (self.sent.is_empty() || long))
            || self.abandoned.len() >= self.max_in_flight
        {
            return Err(StuckConnection);
        }
        Ok(())
    }

    /// Queues every call in flight again, in its old place, because the connection ended.
    pub(super) fn disconnected(&mut self) {
        self.abandoned.clear();
        self.queued.extend(self.sent.drain().map(|(id, sent)| (id, sent.pending)));
    }

    /// Fails every call in flight.
    pub(super) fn fail_sent(&mut self, error: &Error) {
        self.abandoned.clear();
        for (_, sent) in self.sent.drain() {
            drop(sent.pending.caller.send(Err(error.clone())));
        }
    }

    /// Fails every call.
    pub(super) fn fail_all(&mut self, error: &Error) {
        self.fail_sent(error);
        for (_, call) in std::mem::take(&mut self.queued) {
            drop(call.caller.send(Err(error.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HEADER_LEN, decode_request, split_frame};
    use tokio::sync::oneshot::Receiver;

    const S: Duration = Duration::from_secs(1);
    const PLENTY: usize = 1 << 16;

    struct Bench {
        calls: CallTable,
        now: Instant,
        answers: HashMap<u64, Receiver<Result<Reply, Error>>>,
    }

    impl Bench {
        fn new(max_in_flight: usize, ids: impl IntoIterator<Item = u64>) -> Self {
            let mut bench =
                Self { calls: CallTable::default(), now: Instant::now(), answers: HashMap::new() };
            bench.calls.connected(max_in_flight);
            ids.into_iter().for_each(|id| bench.add(id));
            bench
        }

        fn add(&mut self, id: u64) {
            let (caller, answer) = oneshot::channel();
            let call = CheckedCall::segment("t", 1).unwrap().into_owned();
            self.calls.add(id, PendingCall { call, deadline: self.now + 5 * S, caller });
            self.answers.insert(id, answer);
        }

        /// Sends as many calls as allowed and returns their IDs.
        fn send(&mut self) -> Vec<u64> {
            let mut out = Vec::new();
            self.calls.send(self.now, PLENTY, &mut out);
            let (mut unread, mut ids) = (out.as_slice(), Vec::new());
            while let Some((body, rest)) = split_frame(unread, PLENTY).unwrap() {
                ids.push(decode_request(body).unwrap().id);
                unread = rest;
            }
            ids
        }

        fn forget(&mut self, id: u64, overdue: bool) -> Result<(), StuckConnection> {
            self.calls.forget(self.now, id, overdue)
        }

        fn answer(&mut self, id: u64) -> Result<(), ProtocolError> {
            self.calls.heard(self.now);
            self.calls.answer(id, Reply::Time { unix_ms: id })
        }

        fn result(&mut self, id: u64) -> Option<u64> {
            match self.answers.get_mut(&id)?.try_recv().ok()? {
                Ok(Reply::Time { unix_ms }) => Some(unix_ms),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn answers_in_any_order_reach_their_callers() {
        let mut bench = Bench::new(8, [2, 3, 4]);
        assert_eq!(bench.send(), [2, 3, 4]);
        for id in [4, 2, 3] {
            bench.answer(id).unwrap();
            assert_eq!(bench.result(id), Some(id));
        }
        assert!(!bench.calls.any_sent());
    }

    #[test]
    fn an_unexpected_answer_and_a_second_answer_are_errors() {
        let mut bench = Bench::new(8, [2]);
        bench.send();
        assert_eq!(bench.answer(9), Err(ProtocolError::Unasked(9)));
        bench.answer(2).unwrap();
        assert_eq!(bench.answer(2), Err(ProtocolError::Unasked(2)));
        assert_eq!(bench.calls.repeat(2), Err(ProtocolError::Unasked(2)));
    }

    #[test]
    fn requests_in_flight_never_exceed_the_daemons_limit() {
        let mut bench = Bench::new(2, 2..6);
        assert_eq!(bench.send(), [2, 3]);
        assert!(bench.send().is_empty());
        bench.answer(3).unwrap();
        assert_eq!(bench.send(), [4]);
        // A caller that gives up makes no room, because the daemon does not know.
        bench.forget(2, false).unwrap();
        assert!(bench.send().is_empty());
        bench.answer(2).unwrap();
        assert_eq!(bench.send(), [5]);
    }

    #[test]
    fn a_batch_ends_at_its_size_limit() {
        let mut bench = Bench::new(100, 2..50);
        let mut out = Vec::new();
        bench.calls.send(bench.now, 1, &mut out);
        let (body, rest) = split_frame(&out, PLENTY).unwrap().unwrap();
        assert_eq!((decode_request(body).unwrap().id, rest.len()), (2, 0));
        assert!(out.len() > HEADER_LEN && bench.calls.any_queued());
    }

    #[test]
    fn unanswered_calls_are_sent_again_in_their_old_order() {
        let mut bench = Bench::new(3, 2..7);
        assert_eq!(bench.send(), [2, 3, 4]);
        bench.answer(3).unwrap();
        bench.calls.disconnected();
        bench.calls.connected(8);
        assert_eq!(bench.send(), [2, 4, 5, 6]);
    }

    #[test]
    fn a_call_that_a_stopping_daemon_turns_away_is_sent_again() {
        let mut bench = Bench::new(8, [2, 3]);
        bench.send();
        bench.calls.repeat(2).unwrap();
        bench.answer(3).unwrap();
        bench.calls.disconnected();
        assert_eq!(bench.send(), [2]);
    }

    #[test]
    fn an_abandoned_call_leaves_nothing_behind() {
        let mut bench = Bench::new(8, [2, 3, 4]);
        bench.forget(3, true).unwrap();
        assert_eq!(bench.send(), [2, 4]);
        bench.forget(2, false).unwrap();
        bench.answer(2).unwrap();
        bench.answer(4).unwrap();
        bench.forget(4, false).unwrap();
        let CallTable { queued, sent, abandoned, .. } = &bench.calls;
        assert!(queued.is_empty() && sent.is_empty() && abandoned.is_empty());
    }

    #[test]
    fn a_silent_daemon_is_stuck_and_a_slow_one_is_not() {
        let mut bench = Bench::new(8, [2]);
        bench.send();
        assert_eq!(bench.forget(2, true), Err(StuckConnection));

        let mut bench = Bench::new(8, [2, 3, 4]);
        bench.send();
        bench.now += S;
        bench.answer(3).unwrap();
        assert_eq!(bench.forget(2, true), Ok(()));
        assert_eq!(bench.forget(4, false), Ok(()));
    }

    #[test]
    fn an_impatient_caller_costs_patient_ones_their_connection_only_after_a_second_of_silence() {
        let mut bench = Bench::new(8, [2, 3, 4]);
        bench.send();
        bench.now += SILENCE / 2;
        assert_eq!(bench.forget(2, true), Ok(()));
        // The daemon has said something, and owes answers still.
        bench.calls.heard(bench.now);
        bench.add(5);
        bench.now += SILENCE / 2;
        bench.send();
        bench.now += SILENCE / 4;
        assert_eq!(bench.forget(5, true), Ok(()));
        bench.now += SILENCE / 4;
        bench.add(6);
        bench.send();
        assert_eq!(bench.forget(6, true), Err(StuckConnection));
    }

    #[test]
    fn a_connection_full_of_abandoned_calls_is_stuck() {
        let mut bench = Bench::new(3, [2, 3, 4]);
        bench.send();
        assert_eq!(bench.forget(2, false), Ok(()));
        assert_eq!(bench.forget(3, false), Ok(()));
        assert_eq!(bench.forget(4, false), Err(StuckConnection));
    }

    #[test]
    fn a_failure_of_the_calls_in_flight_spares_the_queued_ones() {
        let mut bench = Bench::new(1, [2, 3]);
        bench.send();
        let error = Error::Protocol(ProtocolError::Unasked(0));
        bench.calls.fail_sent(&error);
        assert!(bench.answers.get_mut(&2).unwrap().try_recv().unwrap().is_err());
        assert!(bench.answers.get_mut(&3).unwrap().try_recv().is_err());
        assert_eq!(bench.send(), [3]);
        bench.add(4);
        bench.calls.fail_all(&error);
        for id in [3, 4] {
            assert!(bench.answers.get_mut(&id).unwrap().try_recv().unwrap().is_err());
        }
    }
}
