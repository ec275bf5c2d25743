//! The calls of a connection: which wait to be sent, which wait for an answer, and what is owed to
//! nobody any more. Plain state: time comes in as an argument, bytes go out through a buffer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::error::{Error, ProtocolError};
use crate::session::{CheckedCall, ConnectionFailure};
use crate::wire::Reply;

/// Where the result of a call goes.
pub(super) type ReplySender = oneshot::Sender<Result<Reply, Error>>;

#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) ask: CheckedCall<Box<str>>,
    pub(super) deadline: Instant,
    pub(super) caller: ReplySender,
}

#[derive(Debug)]
struct SentCall {
    call: PendingCall,
    at: Instant,
}

/// The connection is of no use any more: the daemon seems stuck.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StuckConnection;

impl From<StuckConnection> for ConnectionFailure {
    fn from(StuckConnection: StuckConnection) -> Self {
        Self::io(io::ErrorKind::TimedOut, "the daemon gives no answers")
    }
}

#[derive(Debug, Default)]
pub(super) struct CallTable {
    /// By ID, which is the order of the calls.
    waiting: BTreeMap<u64, PendingCall>,
    sent: HashMap<u64, SentCall>,
    /// Sent, given up by the caller, not answered: the daemon still counts them as in flight.
    owed: HashSet<u64>,
    max_in_flight: usize,
    last_heard: Option<Instant>,
}

impl CallTable {
    /// A new call, to be sent in its turn.
    pub(super) fn add(&mut self, id: u64, call: PendingCall) {
        self.waiting.insert(id, call);
    }

    /// Whether a connection is needed.
    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a call can be sent now.
    pub(super) fn may_send(&self) -> bool {
        self.any_waiting() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.sent.len() + self.owed.len() < self.max_in_flight
    }

    /// Whether the daemon owes an answer that somebody waits for.
    pub(super) fn any_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// A new connection is there, with room for so many requests.
    pub(super) fn connected(&mut self, max_in_flight: usize) {
        self.max_in_flight = max_in_flight;
        self.last_heard = None;
    }

    /// Appends waiting calls to `out` until it holds `enough` bytes or the daemon's limit is
    /// reached.
    pub(super) fn send(&mut self, now: Instant, enough: usize, out: &mut Vec<u8>) {
        while out.len() < enough && self.has_room() {
            let Some((id, call)) = self.waiting.pop_first() else { return };
            call.ask.encode(id, call.deadline.saturating_duration_since(now), out);
            self.sent.insert(id, SentCall { call, at: now });
        }
    }

    /// Something came from the daemon.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = Some(now);
    }

    /// Passes an answer to its caller.
    pub(super) fn answer(&mut self, id: u64, reply: Reply) -> Result<(), ProtocolError> {
        match self.sent.remove(&id) {
            // A caller that is gone has lost an ID, which is harmless.
            Some(sent) => drop(sent.call.caller.send(Ok(reply))),
            None if self.owed.remove(&id) => {}
            None => return Err(ProtocolError::Unasked(id)),
        }
        Ok(())
    }

    /// The daemon will not serve this request: it waits for the next connection.
    pub(super) fn repeat(&mut self, id: u64) -> Result<(), ProtocolError> {
        match self.sent.remove(&id) {
            Some(sent) => drop(self.waiting.insert(id, sent.call)),
            None if self.owed.remove(&id) => {}
            None => return Err(ProtocolError::Unasked(id)),
        }
        Ok(())
    }

    /// The caller is gone; `overdue` when because its time was over.
    ///
    /// A daemon answers within the time that it was given, even if with an error. So when the time
    /// of a request is over and nothing at all has come since it was sent, or when all the room on
    /// the connection is taken by answers that nobody waits for, the connection is given up.
    pub(super) fn forget(&mut self, id: u64, overdue: bool) -> Result<(), StuckConnection> {
        if self.waiting.remove(&id).is_some() {
            return Ok(());
        }
        let Some(sent) = self.sent.remove(&id) else { return Ok(()) };
        self.owed.insert(id);
        let silent = self.last_heard.is_none_or(|heard| heard < sent.at);
        if (overdue && silent) || self.owed.len() >= self.max_in_flight {
            return Err(StuckConnection);
        }
        Ok(())
    }

    /// The connection is gone: what has no answer waits for the next one, in its old place.
    pub(super) fn disconnected(&mut self) {
        self.owed.clear();
        self.waiting.extend(self.sent.drain().map(|(id, sent)| (id, sent.call)));
    }

    /// Fails what was sent and not answered.
    pub(super) fn fail_sent(&mut self, error: &Error) {
        self.owed.clear();
        for (_, sent) in self.sent.drain() {
            drop(sent.call.caller.send(Err(error.clone())));
        }
    }

    /// Fails everything.
    pub(super) fn fail_all(&mut self, error: &Error) {
        self.fail_sent(error);
        for (_, call) in std::mem::take(&mut self.waiting) {
            drop(call.caller.send(Err(error.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HEADER_LEN, decode_request, split_frame};
    use std::time::Duration;
    use tokio::sync::oneshot::Receiver;

    const S: Duration = Duration::from_secs(1);
    const PLENTY: usize = 1 << 16;

    struct World {
        calls: CallTable,
        now: Instant,
        answers: HashMap<u64, Receiver<Result<Reply, Error>>>,
    }

    impl World {
        fn new(max_in_flight: usize, ids: impl IntoIterator<Item = u64>) -> Self {
            let mut world =
                Self { calls: CallTable::default(), now: Instant::now(), answers: HashMap::new() };
            world.calls.connected(max_in_flight);
            ids.into_iter().for_each(|id| world.add(id));
            world
        }

        fn add(&mut self, id: u64) {
            let (caller, answer) = oneshot::channel();
            let ask = CheckedCall::segment("t", 1).unwrap().into_owned();
            self.calls.add(id, PendingCall { ask, deadline: self.now + 5 * S, caller });
            self.answers.insert(id, answer);
        }

        /// Sends what may be sent; the IDs.
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
    fn each_answer_finds_its_caller_in_whatever_order_it_comes() {
        let mut world = World::new(8, [2, 3, 4]);
        assert_eq!(world.send(), [2, 3, 4]);
        for id in [4, 2, 3] {
            world.answer(id).unwrap();
            assert_eq!(world.result(id), Some(id));
        }
        assert!(!world.calls.any_sent());
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_an_error_and_so_is_a_second_one() {
        let mut world = World::new(8, [2]);
        world.send();
        assert_eq!(world.answer(9), Err(ProtocolError::Unasked(9)));
        world.answer(2).unwrap();
        assert_eq!(world.answer(2), Err(ProtocolError::Unasked(2)));
        assert_eq!(world.calls.repeat(2), Err(ProtocolError::Unasked(2)));
    }

    #[test]
    fn no_more_requests_are_in_flight_than_the_daemon_allows() {
        let mut world = World::new(2, 2..6);
        assert_eq!(world.send(), [2, 3]);
        assert!(world.send().is_empty());
        world.answer(3).unwrap();
        assert_eq!(world.send(), [4]);
        // A caller that goes away does not make room: the daemon does not know of it.
        world.calls.forget(2, false).unwrap();
        assert!(world.send().is_empty());
        world.answer(2).unwrap();
        assert_eq!(world.send(), [5]);
    }

    #[test]
    fn a_batch_ends_when_it_is_long_enough() {
        let mut world = World::new(100, 2..50);
        let mut out = Vec::new();
        world.calls.send(world.now, 1, &mut out);
        let (body, rest) = split_frame(&out, PLENTY).unwrap().unwrap();
        assert_eq!((decode_request(body).unwrap().id, rest.len()), (2, 0));
        assert!(out.len() > HEADER_LEN && world.calls.any_waiting());
    }

    #[test]
    fn what_got_no_answer_is_sent_again_in_the_old_order() {
        let mut world = World::new(3, 2..7);
        assert_eq!(world.send(), [2, 3, 4]);
        world.answer(3).unwrap();
        world.calls.disconnected();
        world.calls.connected(8);
        assert_eq!(world.send(), [2, 4, 5, 6]);
    }

    #[test]
    fn a_request_that_the_stopping_daemon_turns_away_is_sent_again() {
        let mut world = World::new(8, [2, 3]);
        world.send();
        world.calls.repeat(2).unwrap();
        world.answer(3).unwrap();
        world.calls.disconnected();
        assert_eq!(world.send(), [2]);
    }

    #[test]
    fn a_call_given_up_leaves_nothing_behind() {
        let mut world = World::new(8, [2, 3, 4]);
        world.calls.forget(3, true).unwrap();
        assert_eq!(world.send(), [2, 4]);
        world.calls.forget(2, false).unwrap();
        world.answer(2).unwrap();
        world.answer(4).unwrap();
        world.calls.forget(4, false).unwrap();
        let CallTable { waiting, sent, owed, .. } = &world.calls;
        assert!(waiting.is_empty() && sent.is_empty() && owed.is_empty());
    }

    #[test]
    fn a_daemon_that_says_nothing_for_the_time_of_a_request_is_stuck_and_a_slow_one_is_not() {
        let mut world = World::new(8, [2, 3]);
        world.send();
        assert_eq!(world.calls.forget(2, true), Err(StuckConnection));

        let mut world = World::new(8, [2, 3, 4]);
        world.send();
        world.now += S;
        world.answer(3).unwrap();
        assert_eq!(world.calls.forget(2, true), Ok(()));
        assert_eq!(world.calls.forget(4, false), Ok(()));
    }

    #[test]
    fn a_connection_full_of_unwanted_answers_is_given_up() {
        let mut world = World::new(3, [2, 3, 4]);
        world.send();
        assert_eq!(world.calls.forget(2, false), Ok(()));
        assert_eq!(world.calls.forget(3, false), Ok(()));
        assert_eq!(world.calls.forget(4, false), Err(StuckConnection));
    }

    #[test]
    fn a_failure_reaches_those_it_concerns() {
        let mut world = World::new(1, [2, 3]);
        world.send();
        let error = Error::Protocol(ProtocolError::Unasked(0));
        world.calls.fail_sent(&error);
        assert!(world.answers.get_mut(&2).unwrap().try_recv().unwrap().is_err());
        assert!(world.answers.get_mut(&3).unwrap().try_recv().is_err());
        assert_eq!(world.send(), [3]);
        world.add(4);
        world.calls.fail_all(&error);
        for id in [3, 4] {
            assert!(world.answers.get_mut(&id).unwrap().try_recv().unwrap().is_err());
        }
    }
}
