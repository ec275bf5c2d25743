//! Threads take IDs from one pool in every way at once, from a real leafd, while chunks run out, IDs become
//! too old, and leafd is killed. IDs rise in the order of the calls, and every call returns one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaf_client::pool::{Pool, PoolBuilder};
use leafd_tests::daemon::Home;
use leafd_tests::long::short_or_long;
use leafd_tests::{PATIENCE, SetOnDrop, UniqueIds};
use tokio::runtime::Builder;

/// How long each kind of pool is used.
fn span() -> Duration {
    Duration::from_secs(short_or_long(3, 60))
}

/// The highest ID that any ordered call has returned.
#[derive(Default)]
struct Highest(AtomicU64);

impl Highest {
    /// Takes by `take`, and asserts that what it returns is higher than all that were returned before.
    fn follow(&self, take: impl FnOnce() -> (u64, u64)) -> (u64, u64) {
        let before = self.0.load(Ordering::SeqCst);
        let (first, last) = take();
        assert!(first > before, "{first} after {before} was returned");
        self.0.fetch_max(last, Ordering::SeqCst);
        (first, last)
    }
}

/// Uses a pool in every way at once, and adds its IDs to `seen`.
fn use_in_every_way(pool: &Pool, seen: &UniqueIds, mut meanwhile: impl FnMut()) {
    let (highest, done) = (Highest::default(), AtomicBool::new(false));
    let until_done = |mut work: Box<dyn FnMut() + '_>| {
        while !done.load(Ordering::Relaxed) {
            work();
            // Chunks are used up by bursts, and IDs become old in pauses.
            thread::sleep(Duration::from_micros(fastrand::u64(0..2_000)));
        }
    };
    let one = |take: &dyn Fn() -> u64| {
        let (id, _) = highest.follow(|| {
            let id = take();
            (id, id)
        });
        seen.add_run("pool", id, 1);
    };
    thread::scope(|scope| {
        let takers = [
            scope.spawn(|| until_done(Box::new(|| one(&|| pool.next().unwrap())))),
            scope.spawn(|| {
                let runtime = Builder::new_current_thread().build().unwrap();
                let next = || runtime.block_on(pool.next_async()).unwrap();
                until_done(Box::new(|| one(&next)));
            }),
            scope.spawn(|| {
                until_done(Box::new(|| {
                    for _ in 0..fastrand::u32(0..3_000) {
                        if let Some(id) = pool.try_next() {
                            seen.add_run("pool", id, 1);
                        }
                    }
                }));
            }),
            scope.spawn(|| {
                until_done(Box::new(|| {
                    highest.follow(|| {
                        let ids = pool.next_many(fastrand::u32(1..5_000)).unwrap();
                        seen.add("pool", &ids);
                        assert!(ids.iter().is_sorted_by(|one, next| one < next), "{ids:?}");
                        (ids.first(), ids.iter().last().unwrap())
                    });
                }));
            }),
            scope.spawn(|| {
                let local = pool.local().unwrap();
                until_done(Box::new(|| {
                    for _ in 0..fastrand::u32(1..1_000) {
                        seen.add_run("pool", local.next().unwrap(), 1);
                    }
                }));
            }),
        ];
        let end = SetOnDrop(&done);
        meanwhile();
        drop(end);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    });
}

/// Pools of this kind: small chunks, chunks as the rate wants them, and IDs that become old at once.
fn pools(home: &Home, begin: fn() -> PoolBuilder) -> [Pool; 3] {
    let begin = || begin().options(home.options().timeout(PATIENCE));
    let short_lived = begin().max_age(Duration::from_millis(50));
    [begin().max_chunk(300), begin(), short_lived].map(|pool| pool.build().unwrap())
}

fn check(begin: fn() -> PoolBuilder) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    for (number, pool) in pools(&home, begin).iter().enumerate() {
        let seen = UniqueIds::default();
        use_in_every_way(pool, &seen, || thread::sleep(span()));
        println!("pool {number}: {} IDs, {:?}", seen.total(), pool.stats());
        assert!(seen.total() > 1_000);
    }
    daemon.stop();
}

#[test]
fn ids_of_a_tag_rise_in_the_order_in_which_calls_return_them() {
    check(|| Pool::tag("orders"));
}

#[test]
fn snowflakes_rise_in_the_order_in_which_calls_return_them() {
    check(Pool::snowflake);
}

#[test]
fn kills_of_leafd_let_nobody_wait_in_vain_and_break_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut daemon = Some(home.start());
    for begin in [|| Pool::tag("orders"), Pool::snowflake] {
        let seen = UniqueIds::default();
        let pool = begin().options(home.options().timeout(PATIENCE)).build().unwrap();
        use_in_every_way(&pool, &seen, || {
            for _ in 0..short_or_long(4, 50) {
                thread::sleep(Duration::from_millis(fastrand::u64(50..500)));
                drop(daemon.take().unwrap().kill());
                daemon = Some(home.start());
            }
        });
        println!("{} IDs, {:?}", seen.total(), pool.stats());
    }
    daemon.unwrap().stop();
}
