//! The memory of a pool, without its refill thread and without a daemon: pages, the supply behind a pointer,
//! and handles that outlive each other. `tests/run` also runs these tests by Miri, which finds memory
//! that is used too late, freed twice or never freed.

use std::collections::BTreeSet;
use std::thread;

use super::*;

/// IDs that no refill has to follow: nobody asks for one while more than half of a chunk is left.
const CHUNK: u64 = 32;

fn pool_with(first: u64, count: u64) -> Pool {
    let pool = Pool::tag("orders").build().unwrap();
    pool.supply().counters.chunk.store(CHUNK, Relaxed);
    assert!(pool.page.tickets().publish(Lease { first, count, born: 1 }));
    pool
}

#[test]
fn threads_that_need_the_supply_first_share_one() {
    let pool = Pool::tag("orders").build().unwrap();
    assert!(pool.shared().known_supply().is_none());
    let places = thread::scope(|scope| {
        let place = || std::ptr::from_ref(pool.supply()).addr();
        [(); 3].map(|()| scope.spawn(place)).map(|thread| thread.join().unwrap())
    });
    let known = pool.shared().known_supply().map(|supply| std::ptr::from_ref(supply).addr());
    assert!(places.iter().all(|place| Some(*place) == known), "{places:?}, {known:?}");
}

#[test]
fn a_pool_that_was_never_used_is_dropped() {
    let pool = Pool::snowflake().build().unwrap();
    let shared = Arc::clone(pool.shared());
    drop((pool.clone(), pool));
    assert!(shared.closed.load(Relaxed) && shared.known_supply().is_none());
}

#[test]
fn a_clone_and_a_local_handle_outlive_the_pool() {
    let pool = pool_with(10, CHUNK * 2);
    let (clone, local) = (pool.clone(), pool.local().unwrap());
    let shared = Arc::clone(pool.shared());
    drop(pool);
    assert_eq!((clone.try_next(), local.try_next()), (Some(10), Some(11)));
    drop(clone);
    let after: Vec<_> = (0..5).filter_map(|_| local.try_next()).collect();
    assert_eq!(after, [12, 13, 14, 15, 16]);
    assert!(!shared.closed.load(Relaxed));
    drop(local);
    assert!(shared.closed.load(Relaxed));
}

#[test]
fn handles_of_several_threads_take_each_id_once_and_give_the_rest_back() {
    let pool = pool_with(100, CHUNK * 4);
    let taken: Vec<Vec<u64>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..3)
            .map(|kind| {
                let pool = pool.clone();
                scope.spawn(move || -> Vec<u64> {
                    let local = pool.local().unwrap();
                    let take = || if kind == 0 { pool.try_next() } else { local.try_next() };
                    (0..7).filter_map(|_| take()).collect()
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    let all: Vec<u64> = taken.into_iter().flatten().collect();
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (21, 21), "{all:?}");
    assert!(distinct.iter().all(|id| (100..100 + CHUNK * 4).contains(id)), "{distinct:?}");
    let stats = pool.stats();
    assert_eq!((stats.issued, stats.lost), (21, 0), "{stats:?}");
    assert_eq!(stats.held + stats.lent, CHUNK * 4 - 21, "{stats:?}");
    assert_eq!(pool.supply().counters.locals.load(Relaxed), 0);
}
