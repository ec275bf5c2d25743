//! Pools at their edges: IDs that are all too old, more handles than a chunk has IDs for, answers
//! in another order, and callers that give up or begin at the same moment.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod common;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::patient;
use leaf_client::pool::{LocalPool, Pool};
use leaf_client::testing::FakeDaemon;

/// How old a snowflake may be in these tests.
const AGE: Duration = Duration::from_millis(100);

fn daemon() -> FakeDaemon {
    FakeDaemon::start().unwrap()
}

/// A pool of snowflakes that holds a chunk, all of it too old.
fn outdated(daemon: &FakeDaemon) -> Pool {
    let pool = Pool::snowflake().options(patient(daemon)).max_age(AGE).build().unwrap();
    pool.next().unwrap();
    assert!(daemon.wait_until(|_| pool.stats().held > 50));
    thread::sleep(2 * AGE);
    pool
}

#[test]
fn a_few_ids_at_once_are_leased_anew_when_all_that_is_held_is_too_old() {
    let daemon = daemon();
    for count in [1, 3, 10, 60, 200] {
        let pool = outdated(&daemon);
        assert_eq!(pool.next_many(count).unwrap().len(), u64::from(count));
    }
}

#[test]
fn many_local_handles_lease_anew_when_all_that_is_held_is_too_old() {
    let daemon = daemon();
    for handles in [1, 4, 50] {
        let pool = outdated(&daemon);
        let locals: Vec<LocalPool> = (0..handles).map(|_| pool.local().unwrap()).collect();
        let ids: BTreeSet<u64> = locals.iter().map(|local| local.next().unwrap()).collect();
        assert_eq!(ids.len(), handles);
    }
}

#[test]
fn local_handles_together_hold_no_more_than_two_chunks_with_the_pool() {
    const CHUNK: u32 = 1_000;
    let daemon = daemon();
    let builder = Pool::tag("orders").options(patient(&daemon)).min_chunk(CHUNK).max_chunk(CHUNK);
    let pool = builder.build().unwrap();
    let (mut locals, mut ids) = (Vec::new(), BTreeSet::new());
    let hold = |what: &str, taken: usize| {
        let stats = pool.stats();
        let held = stats.leased - stats.lost - u64::try_from(taken).unwrap();
        assert!(held <= 2 * u64::from(CHUNK), "{what}: {held} are held, {stats:?}");
    };
    for _ in 0..400 {
        // Each one takes its batch before the next is made.
        let local = pool.local().unwrap();
        assert!(ids.insert(local.next().unwrap()));
        locals.push(local);
        hold("local", ids.len());
        for _ in 0..20 {
            assert!(ids.insert(pool.next().unwrap()));
            hold("shared", ids.len());
        }
    }
}

/// Wakes a thread, and tells it so: a thread may also wake up by itself.
struct Unpark(thread::Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

fn unpark() -> Arc<Unpark> {
    Arc::new(Unpark(thread::current(), AtomicBool::new(false)))
}

#[test]
fn answers_in_another_order_than_the_requests_change_no_order() {
    let daemon = daemon();
    daemon.set_limits(100, 64);
    // Chunks of four requests, which are answered from the last to the first.
    daemon.answer_in_reverse(4);
    let builder = Pool::tag("orders").options(patient(&daemon)).min_chunk(400).max_chunk(400);
    let pool = builder.build().unwrap();
    // A pool in a hurry would ask for more than four requests bring.
    let slowly = || {
        thread::sleep(Duration::from_micros(700));
        pool.next().unwrap()
    };
    let ids: Vec<u64> = std::iter::repeat_with(slowly).take(2_000).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    assert_eq!(daemon.peak_in_flight(), 4);
}

#[test]
fn futures_that_are_dropped_at_any_moment_lose_no_id() {
    let daemon = daemon();
    // Small chunks, so that there is a refill all the time.
    let pool = Pool::tag("orders").options(patient(&daemon)).max_chunk(20).build().unwrap();
    let taken: Vec<u64> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let waker = Waker::from(unpark());
                    let mut mine = Vec::new();
                    while mine.len() < 5_000 {
                        let mut future = pin!(pool.next_async());
                        for _ in 0..fastrand(3) {
                            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                            if let Poll::Ready(id) = polled {
                                mine.push(id.unwrap());
                                break;
                            }
                            thread::park_timeout(Duration::from_micros(fastrand(50)));
                        }
                    }
                    mine
                })
            })
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    let distinct: BTreeSet<u64> = taken.iter().copied().collect();
    assert_eq!(distinct.len(), taken.len());
    let adds_up = |_: &FakeDaemon| {
        let stats = pool.stats();
        stats.issued == u64::try_from(taken.len()).unwrap()
            && stats.leased == stats.issued + stats.held + stats.lent + stats.lost
    };
    assert!(daemon.wait_until(adds_up), "{} taken, {:?}", taken.len(), pool.stats());
}

/// 0 to `below`: a number that need not be random, but differs.
fn fastrand(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % (below + 1)
}

#[test]
fn threads_that_use_a_pool_first_at_the_same_moment_share_one_connection() {
    for _ in 0..200 {
        let daemon = daemon();
        let pool = Pool::tag("orders").options(patient(&daemon)).build().unwrap();
        let barrier = Barrier::new(8);
        let ids: BTreeSet<u64> = thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        (0..40).map(|_| pool.next().unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 320);
        assert_eq!((daemon.connections(), pool.stats().failures), (1, 0));
    }
}
