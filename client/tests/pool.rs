//! Pools against a fake daemon: order, refills, outages, quotas, age, and what is left at the end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod common;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{hasty, patient};
use leaf_client::pool::{Pool, PoolBuilder, PoolEvent, PoolStats};
use leaf_client::testing::{FakeDaemon, Fault};
use leaf_client::{Error, ErrorCode, Invalid, Layout, Options, WireError};

fn daemon() -> FakeDaemon {
    FakeDaemon::start().unwrap()
}

fn pool(daemon: &FakeDaemon) -> Pool {
    Pool::tag("orders").options(patient(daemon)).build().unwrap()
}

fn refusal(code: ErrorCode) -> WireError {
    WireError::new(code, "as the test says")
}

/// Waits until `done` says so. A busy machine gets a minute.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "gave up waiting: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The counters once no refill is under way.
fn quiet_stats(pool: &Pool) -> PoolStats {
    let mut last = pool.stats();
    wait_until("quiet counters", || {
        thread::sleep(Duration::from_millis(20));
        let now = pool.stats();
        std::mem::replace(&mut last, now) == now
    });
    last
}

/// Ends the loops of other threads, also when the test fails: a scope waits for them.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn ids_rise_in_a_thread_and_between_threads_and_come_once() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let taken: Vec<Vec<u64>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let pool = pool.clone();
                scope.spawn(move || (0..20_000).map(|_| pool.next().unwrap()).collect::<Vec<_>>())
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    assert!(taken.iter().all(|mine| mine.is_sorted_by(|one, next| one < next)));
    let all: BTreeSet<u64> = taken.iter().flatten().copied().collect();
    assert_eq!(all.len(), 80_000);
    // An ID that is taken after another thread has got its ID is higher.
    for _ in 0..1000 {
        let other = thread::scope(|scope| scope.spawn(|| pool.next().unwrap()).join().unwrap());
        assert!(pool.next().unwrap() > other);
    }
}

#[test]
fn a_pool_connects_and_leases_only_when_it_is_used() {
    let daemon = daemon();
    let pool = pool(&daemon);
    assert_eq!((daemon.connections(), pool.stats()), (0, PoolStats::default()));
    assert_eq!(pool.seconds_left(), None);
    // The first call starts the thread that leases.
    assert_eq!(pool.try_next(), None);
    let mut first = None;
    wait_until("the first ID", || {
        first = pool.try_next();
        first.is_some()
    });
    assert_eq!(first, Some(1));
    assert_eq!(quiet_stats(&pool).leased, 100);
}

#[test]
fn the_counters_add_up() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let local = pool.local().unwrap();
    for _ in 0..5_000 {
        pool.next().unwrap();
        local.next().unwrap();
    }
    pool.next_many(777).unwrap();
    let stats = quiet_stats(&pool);
    assert_eq!(stats.leased, stats.issued + stats.held + stats.lent + stats.lost, "{stats:?}");
    assert!(stats.refills > 1 && stats.waits >= 1 && stats.failures == 0, "{stats:?}");
    drop(local);
    let stats = quiet_stats(&pool);
    assert_eq!(stats.issued + stats.held + stats.lent + stats.lost, stats.leased, "{stats:?}");
    assert!(stats.issued >= 10_777, "{stats:?}");
}

#[test]
fn never_more_than_two_chunks_are_held_however_the_ids_are_taken() {
    let daemon = daemon();
    let pool = Pool::tag("orders").options(patient(&daemon)).max_chunk(5_000).build().unwrap();
    let done = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                let stats = pool.stats();
                most = most.max(stats.held + stats.lent);
            }
            most
        });
        let takers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        // Dropped with a rest, and made again.
                        let local = pool.local().unwrap();
                        assert!((0..3_001).all(|_| local.next().is_ok()));
                        assert!((0..2_001).all(|_| pool.next().is_ok()));
                        pool.next_many(3_003).unwrap();
                    }
                })
            })
            .collect();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    // The watcher reads one counter after the other, so what is on its way to one of the three handles may
    // count twice: at most an eighth of a chunk each.
    assert!(most <= 10_000 + 3 * 5_000 / 8, "{most}");
}

#[test]
fn a_chunk_follows_the_rate_and_large_ones_take_requests_of_the_daemons_size() {
    let daemon = daemon();
    daemon.set_limits(700, 3);
    let pool = pool(&daemon);
    let mut last = 0;
    for _ in 0..100_000 {
        let id = pool.next().unwrap();
        assert!(id > last);
        last = id;
    }
    assert!(pool.stats().chunk > 1_000, "{:?}", pool.stats());
    // More in flight than the daemon allows would have been refused.
    assert!((2..=3).contains(&daemon.peak_in_flight()), "{}", daemon.peak_in_flight());
    let wasted = last - pool.stats().issued;
    assert!(wasted <= pool.stats().lost, "{wasted} {:?}", pool.stats());
}

#[test]
fn local_handles_give_unique_ids_and_their_rest_back() {
    let daemon = daemon();
    let pool = Pool::tag("orders").options(patient(&daemon)).min_chunk(4_000).build().unwrap();
    let mut all = BTreeSet::from([pool.next().unwrap()]);
    let first = pool.local().unwrap();
    assert!(all.insert(first.next().unwrap()));
    drop(first);
    let lent = pool.stats().lent;
    assert!(lent > 0);
    // The next handle gets the rest of the first.
    let second = pool.local().unwrap();
    for _ in 0..lent {
        assert!(all.insert(second.next().unwrap()));
    }
    assert_eq!(quiet_stats(&pool).refills, 1);
    let more: Vec<u64> = thread::scope(|scope| {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let local = pool.local().unwrap();
                    (0..10_000).map(|_| local.next().unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    assert!(more.into_iter().all(|id| all.insert(id)));
}

#[test]
fn many_ids_come_across_chunks_and_invalid_arguments_are_refused() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let ids = pool.next_many(1_234).unwrap();
    assert_eq!(ids.len(), 1_234);
    assert!(ids.iter().collect::<Vec<_>>().is_sorted_by(|one, next| one < next));
    assert!(matches!(pool.next_many(0), Err(Error::Invalid(Invalid::CountZero))));
    let build = |tag: &str| Pool::tag(tag).options(patient(&daemon)).build();
    assert!(matches!(build(""), Err(Error::Invalid(Invalid::EmptyTag))));
    assert!(matches!(build(&"x".repeat(129)), Err(Error::Invalid(Invalid::TagTooLong(129)))));
}

/// Milliseconds since 1970 in a snowflake ID.
fn time_of(id: u64) -> u64 {
    Layout::LEAF.decode(id).unwrap().unix_ms
}

fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[test]
fn a_snowflake_is_never_older_than_max_age() {
    const AGE: u64 = 200;
    let daemon = daemon();
    let options = patient(&daemon);
    let pool = Pool::snowflake().options(options).max_age(Duration::from_millis(AGE)).build();
    let pool = pool.unwrap();
    let local = pool.local().unwrap();
    let mut all = BTreeSet::new();
    for round in 0..6 {
        for _ in 0..300 {
            for take in
                [|pool: &Pool| pool.next(), |pool: &Pool| pool.next_many(1).map(|ids| ids.first())]
            {
                // The clock is read first: the ID is at most that much older than the call.
                let before = unix_ms();
                let id = take(&pool).unwrap();
                assert!(time_of(id) + AGE + 1 >= before, "{before} {}", time_of(id));
                assert!(all.insert(id));
            }
            let before = unix_ms();
            let id = local.next().unwrap();
            assert!(time_of(id) + AGE + 1 >= before, "{before} {}", time_of(id));
            assert!(all.insert(id));
        }
        // Everything that is held gets too old.
        thread::sleep(Duration::from_millis(if round % 2 == 0 { AGE + 50 } else { 0 }));
    }
    let stats = quiet_stats(&pool);
    assert!(stats.lost > 0, "{stats:?}");
    assert_eq!(stats.leased, stats.issued + stats.held + stats.lent + stats.lost, "{stats:?}");
}

#[test]
fn a_pool_of_the_most_snowflakes_that_fit_takes_them_in_order() {
    let daemon = daemon();
    let pool = Pool::snowflake().options(patient(&daemon)).build().unwrap();
    // Answers of one run for each 4,096 IDs, more than there is room for at once.
    let mut last = 0;
    for _ in 0..3_000_000 {
        let id = pool.next().unwrap();
        assert!(id > last);
        last = id;
    }
}

/// Records events in the order in which they come.
fn listening(builder: PoolBuilder) -> (Pool, Arc<Mutex<Vec<PoolEvent>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&events);
    let pool = builder.on_event(move |event| log.lock().unwrap().push(event.clone())).build();
    (pool.unwrap(), events)
}

#[test]
fn an_outage_is_served_from_what_is_held_reported_once_and_over_by_itself() {
    let mut daemon = daemon();
    let builder = Pool::tag("orders").options(hasty(&daemon)).min_chunk(1_000);
    let (pool, events) = listening(builder);
    wait_until("the first ID", || pool.next().is_ok());
    let held = quiet_stats(&pool).held;
    daemon.stop();
    for _ in 0..held {
        pool.next_within(Duration::ZERO).unwrap();
    }
    pool.next_within(Duration::ZERO).unwrap_err();
    wait_until("a failed attempt", || pool.stats().failures > 0);
    for _ in 0..2_000 {
        let error = pool.next_within(Duration::ZERO).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
    let error = pool.next().unwrap_err();
    assert!(error.to_string().contains("not reachable"), "{error}");
    wait_until("the report of the outage", || !events.lock().unwrap().is_empty());
    daemon.restart().unwrap();
    wait_until("an ID after the outage", || pool.next().is_ok());
    wait_until("the end of the outage", || events.lock().unwrap().len() >= 2);
    let events = events.lock().unwrap();
    match &events[..] {
        [PoolEvent::OutageBegan { error, held }, PoolEvent::OutageEnded { .. }] => {
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
            assert!(*held <= 2_000);
        }
        events => panic!("{events:?}"),
    }
}

#[test]
fn callers_that_wait_are_served_when_the_daemon_returns() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let pool = pool(&daemon);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..50).map(|_| scope.spawn(|| pool.next().unwrap())).collect();
        wait_until("callers that wait", || pool.stats().waits == 50);
        daemon.restart().unwrap();
        let ids: BTreeSet<u64> = callers.into_iter().map(|it| it.join().unwrap()).collect();
        assert_eq!(ids.len(), 50);
    });
}

#[test]
fn an_error_that_does_not_pass_is_every_callers_at_once_and_asks_the_daemon_rarely() {
    let daemon = daemon();
    daemon.refuse(Some(refusal(ErrorCode::Forbidden)));
    let pool = pool(&daemon);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    assert_eq!(pool.next().unwrap_err().code(), Some(ErrorCode::Forbidden));
                }
            });
        }
    });
    // Each pause is at least twice as long as the one before, from 2.5 ms on.
    assert!(daemon.requests() < 400, "{}", daemon.requests());
    daemon.refuse(None);
    wait_until("an ID once it is allowed", || pool.next().is_ok());
}

#[test]
fn a_quota_is_waited_for() {
    let daemon = daemon();
    let quota = WireError { detail: 400, ..refusal(ErrorCode::QuotaExceeded) };
    daemon.fault_after(0, Fault::Refuse(quota.with_retry_after_ms(50)));
    let pool = Pool::tag("orders").options(patient(&daemon)).min_chunk(1_000).build().unwrap();
    assert_eq!(pool.next().unwrap(), 1);
    let stats = quiet_stats(&pool);
    // A quarter of the quota, so that others get something, too.
    assert_eq!((stats.failures, stats.leased), (1, 100));
}

#[test]
fn a_store_that_is_down_gives_its_error_at_the_deadline() {
    let daemon = daemon();
    daemon.refuse(Some(refusal(ErrorCode::StoreUnavailable)));
    let pool = Pool::tag("orders").options(hasty(&daemon)).build().unwrap();
    assert_eq!(pool.next().unwrap_err().code(), Some(ErrorCode::StoreUnavailable));
    assert!(pool.stats().failures > 1);
}

#[test]
fn a_connection_that_breaks_after_some_answers_loses_no_order() {
    let daemon = daemon();
    daemon.set_limits(1_000, 64);
    let pool = pool(&daemon);
    let mut last = 0;
    for round in 0..100 {
        daemon.fault_after(round % 7, Fault::Close);
        for _ in 0..2_000 {
            let id = pool.next().unwrap();
            assert!(id > last);
            last = id;
        }
    }
}

#[test]
fn a_listener_that_panics_does_not_end_the_refills() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let builder = Pool::tag("orders").options(hasty(&daemon));
    let pool = builder.on_event(|_| panic!("a listener of the test")).build().unwrap();
    pool.next().unwrap_err();
    daemon.restart().unwrap();
    wait_until("an ID", || pool.next().is_ok());
}

#[test]
fn the_last_clone_ends_the_thread_and_its_connection() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let clone = pool.clone();
    pool.next().unwrap();
    drop(pool);
    clone.next_many(1_000).unwrap();
    assert_eq!(daemon.open_connections(), 1);
    drop(clone);
    assert!(daemon.wait_until(|daemon| daemon.open_connections() == 0));
}

#[test]
fn settings_out_of_range_are_moved_into_it() {
    let daemon = daemon();
    let builder = || Pool::tag("orders").options(patient(&daemon));
    let pool = builder().min_chunk(0).max_chunk(0).build().unwrap();
    let ids: Vec<u64> = (0..10).map(|_| pool.next().unwrap()).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<_>>());
    assert_eq!(pool.stats().chunk, 1);
    let pool = builder().max_chunk(u32::MAX).min_chunk(u32::MAX).build().unwrap();
    pool.next().unwrap();
    assert_eq!(pool.stats().chunk, 1_000_000);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls without a runtime, sleeping until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn the_next_id_can_be_awaited_on_any_runtime() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let ids: Vec<u64> = (0..5_000).map(|_| block_on(pool.next_async()).unwrap()).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    let runtime = common::runtime();
    let later = runtime.block_on(async {
        let pool = pool.clone();
        tokio::spawn(async move { pool.next_async().await }).await.unwrap().unwrap()
    });
    assert!(later > ids[4_999]);
}

#[test]
fn a_future_ends_at_its_deadline_without_a_timer_of_its_runtime() {
    let daemon = FakeDaemon::stopped().unwrap();
    let pool = pool(&daemon);
    let error = block_on(pool.next_async_within(Duration::from_millis(50))).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn a_future_that_is_dropped_takes_no_id_and_leaves_no_waker() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let pool = pool(&daemon);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    for _ in 0..100 {
        let mut future = pin!(pool.next_async());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    wait_until("failed attempts", || pool.stats().failures > 2);
    let woken = counter.0.load(Ordering::SeqCst);
    daemon.restart().unwrap();
    assert_eq!(pool.next().unwrap(), 1);
    assert_eq!(pool.next().unwrap(), 2);
    // Those that were dropped are not woken by the refill.
    assert_eq!(counter.0.load(Ordering::SeqCst), woken);
    drop(waker);
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[test]
fn thousands_of_futures_are_all_served() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let options = patient(&daemon);
    let pool = Pool::tag("orders").options(options).build().unwrap();
    common::runtime().block_on(async {
        let tasks: Vec<_> = (0..3_000)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.next_async().await.unwrap() })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        daemon.restart().unwrap();
        let mut ids = BTreeSet::new();
        for task in tasks {
            assert!(ids.insert(task.await.unwrap()));
        }
    });
}

#[test]
fn a_pool_says_how_long_it_lasts() {
    let daemon = daemon();
    let pool = Pool::tag("orders").options(Options::at(daemon.path())).build().unwrap();
    pool.next_many(50_000).unwrap();
    let stats = quiet_stats(&pool);
    let left = pool.seconds_left().unwrap();
    assert!(left > 0.0 && stats.held > 0, "{left} {stats:?}");
}
