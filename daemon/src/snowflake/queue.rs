//! Who waits for snowflake IDs. Few IDs come before many, and many come in slices in turn, so that
//! one caller with large requests does not keep everybody else waiting. Plain data.

use std::collections::VecDeque;

use leaf_client::wire::WireError;
use tokio::sync::oneshot;

use crate::runs::Runs;

/// A request for up to so many does not queue behind larger ones.
const FEW: u32 = 64;

/// A larger request gets so many IDs, and then it is the next one's turn: what a millisecond of
/// the default layout gives.
const SLICE: u32 = 4096;

/// From so many on, those whose callers are gone are looked for.
const SWEPT: usize = 1024;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) left: u32,
    pub(super) runs: Runs,
    pub(super) sender: oneshot::Sender<Result<Runs, WireError>>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    few: VecDeque<Waiter>,
    many: VecDeque<Waiter>,
    swept: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// Appends a request. Those whose callers are gone do not pile up: they are dropped each time
    /// that the queue has doubled.
    pub(super) fn push(&mut self, waiter: Waiter) {
        let len = self.few.len() + self.many.len();
        if len >= SWEPT.max(2 * self.swept) {
            for queue in [&mut self.few, &mut self.many] {
                queue.retain(|waiter| !waiter.sender.is_closed());
            }
            self.swept = self.few.len() + self.many.len();
        }
        if waiter.left <= FEW {
            self.few.push_back(waiter);
        } else {
            self.many.push_back(waiter);
        }
    }

    /// Whose turn it is, and for how many IDs.
    pub(super) fn next(&mut self) -> Option<(&mut Waiter, u32)> {
        let waiter = match self.few.front_mut() {
            Some(waiter) => Some(waiter),
            None => self.many.front_mut(),
        };
        waiter.map(|waiter| {
            let count = waiter.left.min(SLICE);
            (waiter, count)
        })
    }

    /// The one whose turn it was has had its slice, and wants more.
    pub(super) fn turn(&mut self) {
        if self.few.is_empty()
            && let Some(waiter) = self.many.pop_front()
        {
            self.many.push_back(waiter);
        }
    }

    /// Takes out the one whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Waiter> {
        self.few.pop_front().or_else(|| self.many.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(left: u32) -> (Waiter, oneshot::Receiver<Result<Runs, WireError>>) {
        let (sender, receiver) = oneshot::channel();
        (Waiter { left, runs: Runs::default(), sender }, receiver)
    }

    #[test]
    fn few_come_before_many_and_many_take_turns() {
        let mut queue = Queue::default();
        let mut receivers = Vec::new();
        for left in [100_000, 50_000, 1] {
            let (waiter, receiver) = waiter(left);
            queue.push(waiter);
            receivers.push(receiver);
        }
        assert_eq!(queue.next().map(|(_, count)| count), Some(1));
        assert_eq!(queue.pop().map(|waiter| waiter.left), Some(1));
        for expected in [100_000, 50_000, 100_000] {
            assert_eq!(queue.next().map(|(w, count)| (w.left, count)), Some((expected, SLICE)));
            queue.turn();
        }
        assert!(!queue.is_empty());
    }

    #[test]
    fn those_whose_callers_are_gone_do_not_pile_up() {
        let mut queue = Queue::default();
        let (head, _kept) = waiter(100_000);
        queue.push(head);
        for _ in 0..100_000 {
            queue.push(waiter(1).0);
        }
        assert!(queue.few.len() + queue.many.len() <= SWEPT + 1);
    }
}
