//! Lets users take turns on the serving thread, so that a user with thousands of connections delays
//! others by one round at most. It decides whose turn is next, and knows no socket.
//!
//! A user's connections run freely until its share of the round is used up. Then they queue, and
//! each round lets a few of them go on. Only users that want more than their share queue, so a
//! single request costs one comparison and one addition.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::lock::lock;

/// A user's share of a round, in bytes of answers: some 2,000 answers with one ID each, or about
/// half a millisecond.
const SHARE: usize = 64 * 1024;

/// Connections of one user that go on in one round. Each limits its own turn to a part of the
/// share.
const GRANTS: usize = 32;

/// What a user has spent in this round, and its connections that wait for the next.
#[derive(Debug, Default)]
pub(crate) struct Share {
    spent: AtomicUsize,
    queue: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// Connections that have had no answer yet.
    fresh: VecDeque<Arc<QueuePlace>>,
    others: VecDeque<Arc<QueuePlace>>,
    /// The two queues alternate, so that new connections do not starve the others.
    fresh_was_last: bool,
}

/// The place of one connection in its user's queue.
#[derive(Debug, Default)]
pub(crate) struct QueuePlace {
    granted: AtomicBool,
    waker: AtomicWaker,
}

/// The shares of the users whose connections queue.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    shares: Mutex<Vec<Arc<Share>>>,
    first_came: Notify,
}

impl Share {
    /// Whether connections of this user have to queue.
    #[inline]
    #[must_use]
    pub(crate) fn is_used_up(&self) -> bool {
        self.spent.load(Ordering::Relaxed) >= SHARE
    }

    /// Adds `cost`, in bytes of answers. Only the serving thread calls this.
    #[inline]
    pub(crate) fn spend(&self, cost: usize) {
        let spent = self.spent.load(Ordering::Relaxed);
        self.spent.store(spent.saturating_add(cost), Ordering::Relaxed);
    }

    /// Lets the next connections go on. Returns whether others still queue.
    fn grant(&self) -> bool {
        let mut queue = lock(&self.queue);
        for _ in 0..GRANTS {
            let Some(place) = queue.next() else { break };
            place.granted.store(true, Ordering::Release);
            place.waker.wake();
        }
        let more = !queue.is_empty();
        if !more {
            self.spent.store(0, Ordering::Relaxed);
        }
        more
    }
}

impl Places {
    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.others.is_empty()
    }

    fn next(&mut self) -> Option<Arc<QueuePlace>> {
        self.fresh_was_last = !self.fresh_was_last;
        let Self { fresh, others, .. } = self;
        let (first, second) = if self.fresh_was_last { (fresh, others) } else { (others, fresh) };
        first.pop_front().or_else(|| second.pop_front())
    }
}

impl Turns {
    /// Waits until this connection of the user with this share may go on. With `is_fresh`, it goes
    /// ahead of connections that have had an answer.
    pub(crate) async fn wait(&self, share: &Arc<Share>, place: &Arc<QueuePlace>, is_fresh: bool) {
        self.enter(share, place, is_fresh);
        poll_fn(|cx| {
            place.waker.register(cx.waker());
            if place.granted.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn enter(&self, share: &Arc<Share>, place: &Arc<QueuePlace>, is_fresh: bool) {
        place.granted.store(false, Ordering::Relaxed);
        let mut queue = lock(&share.queue);
        let is_first = queue.is_empty();
        let Places { fresh, others, .. } = &mut *queue;
        if is_fresh { fresh } else { others }.push_back(Arc::clone(place));
        drop(queue);
        if is_first {
            lock(&self.shares).push(Arc::clone(share));
            self.first_came.notify_one();
        }
    }

    /// Runs the rounds forever. Call it on the serving thread.
    pub(crate) async fn run(&self) {
        loop {
            self.first_came.notified().await;
            loop {
                // First let connections run that need not queue, or whose requests have just
                // arrived.
                tokio::task::yield_now().await;
                if !self.round() {
                    break;
                }
            }
        }
    }

    /// Gives each user its share. Returns whether connections still queue.
    fn round(&self) -> bool {
        let mut shares = std::mem::take(&mut *lock(&self.shares));
        shares.retain(|share| share.grant());
        let mut all = lock(&self.shares);
        all.append(&mut shares);
        !all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct QueueingUsers {
        turns: Turns,
        shares: Vec<Arc<Share>>,
    }

    impl QueueingUsers {
        /// Users that have used up their shares.
        fn of(users: usize) -> Self {
            let shares: Vec<_> = (0..users).map(|_| Arc::<Share>::default()).collect();
            shares.iter().for_each(|share| share.spend(SHARE));
            Self { turns: Turns::default(), shares }
        }

        fn enter(&self, user: usize, is_fresh: bool) -> Arc<QueuePlace> {
            let place = Arc::new(QueuePlace::default());
            self.turns.enter(&self.shares[user], &place, is_fresh);
            place
        }
    }

    fn goes_on(place: &Arc<QueuePlace>) -> bool {
        place.granted.load(Ordering::Relaxed)
    }

    #[test]
    fn a_user_with_one_connection_goes_on_in_the_next_round_despite_one_with_ten_thousand() {
        let rig = QueueingUsers::of(2);
        let crowd: Vec<_> = (0..10_000).map(|_| rig.enter(0, false)).collect();
        let alone = rig.enter(1, false);
        assert!(rig.turns.round());
        assert!(goes_on(&alone));
        assert!(!rig.shares[1].is_used_up());
        assert_eq!(crowd.iter().filter(|place| goes_on(place)).count(), GRANTS);
        assert!(rig.shares[0].is_used_up());
    }

    #[test]
    fn all_connections_of_a_user_go_on_in_order() {
        let rig = QueueingUsers::of(1);
        let places: Vec<_> = (0..3 * GRANTS - 1).map(|_| rig.enter(0, false)).collect();
        for round in 1..=3 {
            assert_eq!(rig.turns.round(), round < 3);
            let gone = places.iter().take_while(|place| goes_on(place)).count();
            assert_eq!(gone, (round * GRANTS).min(places.len()));
        }
        assert!(!rig.shares[0].is_used_up());
        assert!(!rig.turns.round());
    }

    #[test]
    fn connections_without_an_answer_alternate_with_the_others() {
        let rig = QueueingUsers::of(1);
        let old: Vec<_> = (0..1000).map(|_| rig.enter(0, false)).collect();
        let fresh: Vec<_> = (0..1000).map(|_| rig.enter(0, true)).collect();
        rig.turns.round();
        for places in [&old, &fresh] {
            assert_eq!(places.iter().filter(|place| goes_on(place)).count(), GRANTS / 2);
        }
    }

    #[tokio::test]
    async fn the_rounds_wake_waiting_connections() {
        let rig = QueueingUsers::of(1);
        let (turns, share) = (Arc::new(rig.turns), Arc::clone(&rig.shares[0]));
        let running = Arc::clone(&turns);
        let rounds = tokio::spawn(async move { running.run().await });
        for _ in 0..3 {
            share.spend(SHARE);
            turns.wait(&share, &Arc::default(), false).await;
        }
        rounds.abort();
    }
}
