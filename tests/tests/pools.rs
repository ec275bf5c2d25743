//! Pools of an application on a real leafd: a preforking server, kills and restarts of leafd, an outage of
//! its database, quotas, access rules, and what a pool does to the tag's step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_client::pool::Pool;
use leaf_client::{Error, ErrorCode};
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::forked::{Forked, IdRuns};
use leafd_tests::long::short_or_long;
use leafd_tests::other_user::open_to_all;
use leafd_tests::{Database, PATIENCE, SetOnDrop, UniqueIds};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

fn pool(home: &Home) -> Pool {
    Pool::tag("orders").options(home.options().timeout(PATIENCE)).build().unwrap()
}

fn add(seen: &UniqueIds, ids: &IdRuns) {
    ids.runs().iter().for_each(|(first, count)| seen.add_run("orders", *first, *count));
}

/// Asks again until an ID comes.
fn next_in_the_end(pool: &Pool) -> u64 {
    let began = Instant::now();
    loop {
        match pool.next_within(Duration::from_secs(1)) {
            Ok(id) => return id,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    }
}

#[test]
fn eight_children_of_a_preforking_server_repeat_no_id() {
    const CHILDREN: u64 = 8;
    let each = short_or_long(1_250_000, 15_000_000);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let (pool, seen) = (pool(&home), UniqueIds::default());
    let mut mine = IdRuns::default();
    (0..1000).for_each(|_| mine.push(pool.next().unwrap()));
    let local = pool.local().unwrap();
    mine.push(local.next().unwrap());
    let stop = AtomicBool::new(false);
    let others = thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        // Another thread of the parent takes while the parent forks.
        let taker = scope.spawn(|| {
            let mut ids = IdRuns::default();
            while !stop.load(Ordering::Relaxed) {
                ids.push(pool.next().unwrap());
                if ids.count() % 1000 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            ids
        });
        let children: Vec<Forked> = (0..CHILDREN)
            .map(|number| {
                Forked::doing(|| {
                    let mut ids = IdRuns::default();
                    for turn in 0..each {
                        // Half of them from the handle that the parent made and used.
                        let take_local = (turn + number) % 2 == 0;
                        let id = if take_local { local.next() } else { pool.next() };
                        ids.push(id.unwrap());
                    }
                    ids
                })
            })
            .collect();
        let mut lists: Vec<IdRuns> = children.into_iter().map(Forked::join).collect();
        stop.store(true, Ordering::Relaxed);
        lists.push(taker.join().unwrap());
        lists
    });
    (0..1000).for_each(|_| mine.push(local.next().unwrap()));
    for ids in others.iter().chain([&mine]) {
        add(&seen, ids);
    }
    assert!(seen.total() > CHILDREN * each);
    println!("{} IDs of a parent and {CHILDREN} children, none twice", seen.total());
    daemon.stop();
}

#[test]
fn kills_and_restarts_of_leafd_fail_no_call_of_a_pool_and_repeat_no_id() {
    let rounds = short_or_long(8, 100);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut daemon = Some(home.start());
    // Small chunks, so that every kill meets refills.
    let options = home.options().timeout(PATIENCE);
    let pool = Pool::tag("orders").options(options).max_chunk(500).build().unwrap();
    let (seen, failed) = (UniqueIds::default(), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        let takers: Vec<_> = (0..3)
            .map(|number| {
                let (pool, stop, failed) = (pool.clone(), &stop, &failed);
                scope.spawn(move || {
                    let (local, mut ids) = (pool.local().unwrap(), IdRuns::default());
                    while !stop.load(Ordering::Relaxed) {
                        match if number == 0 { local.next() } else { pool.next() } {
                            Ok(id) => ids.push(id),
                            Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                        }
                        if ids.count() % 100 == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    ids
                })
            })
            .collect();
        for round in 0..rounds {
            thread::sleep(Duration::from_millis(fastrand::u64(50..300)));
            let running = daemon.take().unwrap();
            drop(if round % 2 == 0 { running.kill() } else { running.stop() });
            daemon = Some(home.start());
        }
        next_in_the_end(&pool);
        stop.store(true, Ordering::Relaxed);
        takers.into_iter().for_each(|taker| add(&seen, &taker.join().unwrap()));
    });
    let stats = pool.stats();
    assert_eq!(failed.load(Ordering::Relaxed), 0, "{stats:?}");
    println!(
        "{} IDs over {rounds} kills and stops, {} refills, none twice",
        seen.total(),
        stats.refills
    );
    daemon.unwrap().stop();
}

#[test]
fn an_outage_of_the_database_is_served_from_memory_and_ends_with_a_typed_error() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::start(Kind::MariaDb);
    database.create_table();
    database.insert_tag("orders", 1, 1000);
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let options = home.options().timeout(Duration::from_secs(2));
    let pool = Pool::tag("orders").options(options).build().unwrap();
    let (seen, mut ids) = (UniqueIds::default(), IdRuns::default());
    (0..2_000).for_each(|_| ids.push(next_in_the_end(&pool)));
    database.stop();
    let held = pool.stats().held;
    // The pool's own, then leafd's.
    let (mut served, mut late) = (0, 0);
    let error = loop {
        match pool.next() {
            Ok(id) => ids.push(id),
            // On a busy machine the refusal itself may come too late.
            Err(error) if error.code().is_none() && late < 20 => {
                late += 1;
                continue;
            }
            Err(error) => break error,
        }
        served += 1;
    };
    assert!(served >= held, "{served} of {held}");
    assert_eq!(error.code(), Some(ErrorCode::StoreUnavailable), "{error}");
    database.start_again();
    (0..2_000).for_each(|_| ids.push(next_in_the_end(&pool)));
    add(&seen, &ids);
    println!("{served} IDs after the database had stopped, {} in all, none twice", seen.total());
    daemon.stop();
}

#[test]
fn a_pool_within_a_quota_gets_no_more_than_the_quota_and_no_error() {
    const QUOTA: u64 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("QUOTA_IDS_PER_SECOND", &QUOTA.to_string());
    let daemon = home.start();
    let (pool, seen, mut ids) = (pool(&home), UniqueIds::default(), IdRuns::default());
    let began = Instant::now();
    while ids.count() < 3 * QUOTA {
        ids.push(pool.next().unwrap());
        let most = u128::from(QUOTA) * (began.elapsed().as_millis() + 1001) / 1000;
        assert!(u128::from(ids.count()) <= most, "{} of {most}", ids.count());
    }
    add(&seen, &ids);
    let stats = pool.stats();
    assert!(stats.failures > 0 && stats.chunk <= QUOTA / 4, "{stats:?}");
    println!("{} IDs within the quota, {stats:?}", ids.count());
    daemon.stop();
}

#[test]
fn a_child_of_another_user_gets_the_ids_that_its_rule_allows_and_no_others() {
    const SHOP: u32 = 61_077;
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let rules = format!("[{{ name = 'shop', users = [{SHOP}], tags = ['orders'] }}]");
    let home = Home::new(folder.path()).with("SOCKET_MODE", "0666").with("ACCESS_RULES", &rules);
    let daemon = home.start();
    let options = home.options().timeout(PATIENCE);
    let allowed = Pool::tag("orders").options(options.clone()).build().unwrap();
    let forbidden = Pool::tag("salaries").options(options).build().unwrap();
    forbidden.next().unwrap();
    let child = Forked::doing(|| {
        setgroups(&[]).unwrap();
        setgid(Gid::from_raw(SHOP)).unwrap();
        setuid(Uid::from_raw(SHOP)).unwrap();
        // Before the kernel's word on it: the parent's IDs of this tag are not here.
        assert_eq!(forbidden.try_next(), None);
        for _ in 0..100 {
            match forbidden.next() {
                Err(Error::Refused(refusal)) if refusal.code() == ErrorCode::Forbidden => {}
                other => panic!("{other:?}"),
            }
        }
        let mut ids = IdRuns::default();
        (0..500).for_each(|_| ids.push(allowed.next().unwrap()));
        ids
    });
    assert_eq!(child.join().count(), 500);
    daemon.stop();
}

#[test]
fn the_step_of_a_tag_follows_what_the_pools_of_the_host_use() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    client.tag_create("orders", 1000, 1, "").unwrap();
    let pools = [pool(&home), pool(&home)];
    // Two processes would be the same to leafd: each pool has a connection of its own.
    thread::scope(|scope| {
        for pool in &pools {
            scope.spawn(|| assert!((0..400_000).all(|_| pool.next().is_ok())));
        }
    });
    let status = client.tag_show("orders").unwrap();
    assert!(status.step >= 16_000 && status.row_step == 1000, "{status:?}");
    assert!(status.leases < 100, "{status:?}");
    daemon.stop();
}
