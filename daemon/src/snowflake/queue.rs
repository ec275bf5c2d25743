//! Requests that wait for snowflake IDs. The one that needs the fewest comes first: large requests
//! hold up no small ones, and some large ones finish early instead of all of them late. Plain data.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use leaf_client::wire::WireError;
use tokio::sync::oneshot;

use crate::ids::Runs;

/// Shortest queue that is swept of requests whose callers are gone.
const SWEPT: usize = 1024;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) left: u32,
    pub(super) runs: Runs,
    pub(super) sender: oneshot::Sender<Result<Runs, WireError>>,
    /// Its place in the order of arrival, which decides among equals.
    number: u64,
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns the greatest first.
        (other.left, other.number).cmp(&(self.left, self.number))
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiter {}

#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    waiters: BinaryHeap<Waiter>,
    last_number: u64,
    swept: usize,
}

impl WaitQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Adds a request that needs `left` more IDs. Each time the queue has doubled, it drops
    /// requests whose callers are gone, so that they do not pile up.
    pub(super) fn push(
        &mut self,
        left: u32,
        runs: Runs,
        sender: oneshot::Sender<Result<Runs, WireError>>,
    ) {
        if self.waiters.len() >= SWEPT.max(2 * self.swept) {
            self.waiters.retain(|waiter| !waiter.sender.is_closed());
            self.swept = self.waiters.len();
        }
        self.last_number += 1;
        self.waiters.push(Waiter { left, runs, sender, number: self.last_number });
    }

    /// The first request. It stays first if it needs fewer IDs afterwards.
    pub(super) fn next(&mut self) -> Option<PeekMut<'_, Waiter>> {
        self.waiters.peek_mut()
    }

    /// Takes out the first request.
    pub(super) fn pop(&mut self) -> Option<Waiter> {
        self.waiters.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut WaitQueue, left: u32) -> oneshot::Receiver<Result<Runs, WireError>> {
        let (sender, receiver) = oneshot::channel();
        queue.push(left, Runs::default(), sender);
        receiver
    }

    #[test]
    fn the_request_that_needs_the_fewest_comes_first_and_among_equals_the_oldest() {
        let mut queue = WaitQueue::default();
        let _waiting: Vec<_> = [5000, 9, 5000, 1].map(|left| push(&mut queue, left)).into();
        queue.next().unwrap().left = 0;
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|waiter| (waiter.left, waiter.number)).collect();
        assert_eq!(order, [(0, 4), (9, 2), (5000, 1), (5000, 3)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_large_request_that_was_begun_is_finished_before_its_equals() {
        let mut queue = WaitQueue::default();
        let _waiting: Vec<_> = [100_000; 3].map(|left| push(&mut queue, left)).into();
        queue.next().unwrap().left = 60_000;
        assert_eq!(queue.next().map(|waiter| waiter.left), Some(60_000));
    }

    #[test]
    fn requests_whose_callers_are_gone_do_not_pile_up() {
        let mut queue = WaitQueue::default();
        let _head = push(&mut queue, 1);
        for _ in 0..100_000 {
            drop(push(&mut queue, 5));
        }
        assert!(queue.waiters.len() <= SWEPT + 1);
    }
}
