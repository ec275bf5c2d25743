//! Users take turns on the serving thread, so that one who opens thousands of connections delays
//! nobody else by more than a round. Decides who is next and when; knows no socket.
//!
//! A user works without asking until its share of the round is used up. Then its connections queue,
//! and each round lets a few of them go on. Only users who want more than their share get here, so
//! a request that comes alone pays for one comparison and one addition.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

/// What a user may spend in a round, in bytes of answers: some 2,000 answers with one ID each, or
/// about half a millisecond.
const SHARE: usize = 64 * 1024;

/// Connections of one user that go on in one round. Each then has a turn of its own, which its
/// connection bounds to a part of the share.
const GRANTS: usize = 32;

/// What a user has spent in this round, and its connections that want more.
#[derive(Debug, Default)]
pub struct Share {
    spent: AtomicUsize,
    queue: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// Connections that nobody has answered yet.
    fresh: VecDeque<Arc<Place>>,
    others: VecDeque<Arc<Place>>,
    /// Both take turns, so that new connections do not shut out the others.
    fresh_was_last: bool,
}

/// The place of one connection in its user's queue.
#[derive(Debug, Default)]
pub struct Place {
    granted: AtomicBool,
    waker: AtomicWaker,
}

/// The shares of the users whose connections queue.
#[derive(Debug, Default)]
pub struct Turns {
    shares: Mutex<Vec<Arc<Share>>>,
    first_came: Notify,
}

impl Share {
    /// Whether connections of this user have to queue.
    #[inline]
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.spent.load(Ordering::Relaxed) >= SHARE
    }

    /// Adds `cost`, in bytes of answers. Only the serving thread calls this.
    #[inline]
    pub fn spend(&self, cost: usize) {
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

    fn next(&mut self) -> Option<Arc<Place>> {
        self.fresh_was_last = !self.fresh_was_last;
        let Self { fresh, others, .. } = self;
        let (first, second) = if self.fresh_was_last { (fresh, others) } else { (others, fresh) };
        first.pop_front().or_else(|| second.pop_front())
    }
}

impl Turns {
    /// Waits until a connection of the user with this share may go on. With `is_fresh`, it goes ahead of those that
    /// were answered before.
    pub async fn wait(&self, share: &Arc<Share>, place: &Arc<Place>, is_fresh: bool) {
        self.enter(share, place, is_fresh);
        poll_fn(|cx| {
            place.waker.register(cx.waker());
            if place.granted.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn enter(&self, share: &Arc<Share>, place: &Arc<Place>, is_fresh: bool) {
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

    /// Runs the rounds, for ever. Belongs on the serving thread.
    pub async fn run(&self) {
        loop {
            self.first_came.notified().await;
            loop {
                // Everyone who need not queue comes first, and whoever has just sent something.
                tokio::task::yield_now().await;
                if !self.round() {
                    break;
                }
            }
        }
    }

    /// Gives each user its share. Returns whether anybody still queues.
    fn round(&self) -> bool {
        let mut shares = std::mem::take(&mut *lock(&self.shares));
        shares.retain(|share| share.grant());
        let mut all = lock(&self.shares);
        all.append(&mut shares);
        !all.is_empty()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        turns: Turns,
        shares: Vec<Arc<Share>>,
    }

    impl Rig {
        /// Users who have used up their shares.
        fn of(users: usize) -> Self {
            let shares: Vec<_> = (0..users).map(|_| Arc::<Share>::default()).collect();
            shares.iter().for_each(|share| share.spend(SHARE));
            Self { turns: Turns::default(), shares }
        }

        fn enter(&self, user: usize, is_fresh: bool) -> Arc<Place> {
            let place = Arc::new(Place::default());
            self.turns.enter(&self.shares[user], &place, is_fresh);
            place
        }
    }

    fn goes_on(place: &Arc<Place>) -> bool {
        place.granted.load(Ordering::Relaxed)
    }

    #[test]
    fn a_user_with_one_connection_goes_on_in_the_next_round_beside_one_with_ten_thousand() {
        let rig = Rig::of(2);
        let crowd: Vec<_> = (0..10_000).map(|_| rig.enter(0, false)).collect();
        let alone = rig.enter(1, false);
        assert!(rig.turns.round());
        assert!(goes_on(&alone));
        assert!(!rig.shares[1].is_used_up());
        assert_eq!(crowd.iter().filter(|place| goes_on(place)).count(), GRANTS);
        assert!(rig.shares[0].is_used_up());
    }

    #[test]
    fn connections_of_a_user_go_on_in_order_and_all_of_them() {
        let rig = Rig::of(1);
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
    fn a_connection_that_nobody_has_answered_yet_goes_ahead_but_not_alone() {
        let rig = Rig::of(1);
        let old: Vec<_> = (0..1000).map(|_| rig.enter(0, false)).collect();
        let fresh: Vec<_> = (0..1000).map(|_| rig.enter(0, true)).collect();
        rig.turns.round();
        for places in [&old, &fresh] {
            assert_eq!(places.iter().filter(|place| goes_on(place)).count(), GRANTS / 2);
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_rounds() {
        let rig = Rig::of(1);
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
