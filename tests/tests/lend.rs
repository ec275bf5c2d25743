//! Worker IDs that leafd lends to processes with another snowflake library, by the calls that `leafctl run`
//! makes: each number has one borrower at a time, over restarts, outages and losses.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::wire::ErrorCode;
use leafd_tests::registry::RegistryKind;
use leafd_tests::{Borrower, Host, TestRegistry, UniqueIds, on_every_registry, scrape};

/// The right to a worker ID ends so long after the last report…
const FENCE: Duration = Duration::from_secs(10);
/// …and another host may take it over after this.
const RECLAIM: Duration = Duration::from_secs(20);

on_every_registry! {
    borrowers_of_all_hosts_get_numbers_of_their_own_and_leafd_keeps_its_own,
    a_loan_outlives_leafd_with_and_without_the_registry,
    a_returned_worker_id_is_lent_again_from_the_time_that_was_recorded,
    a_worker_id_whose_leafd_and_borrower_are_gone_is_lent_again_after_reclaim_after,
    whoever_makes_up_loans_does_not_make_others_wait_for_theirs,
}

fn host(registry: &TestRegistry, name: &str) -> Host {
    Host::new(registry.access(), name, &UniqueIds::default())
        .with("WORKER_FENCE_AFTER", "10s")
        .with("WORKER_RECLAIM_AFTER", "20s")
        .with("LEND_POOLS", "default:10,tiny:1,other:16")
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn borrowers_of_all_hosts_get_numbers_of_their_own_and_leafd_keeps_its_own(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::shared(kind);
    let mut hosts = [host(&registry, "a"), host(&registry, "b")];
    registry.start_in_order(hosts.iter_mut());
    let of = |host: &Host| Borrower::of(host.home(), "default");
    let mut borrowers: Vec<_> = hosts.iter().cycle().take(8).map(of).collect();
    let mut loans = Vec::new();
    for borrower in &mut borrowers {
        // All of them claim at once.
        let _ = borrower.ask();
    }
    for borrower in &mut borrowers {
        loans.push(borrower.borrows());
    }
    let numbers: BTreeSet<_> = loans.iter().map(|loan| loan.worker).collect();
    assert_eq!(numbers, (0..8).collect(), "{loans:?}");
    for (loan, borrower) in loans.iter().zip(&mut borrowers) {
        assert_eq!(loan.bits, 10);
        assert!(loan.left_ms <= 10_000 && loan.limit_unix_ms <= now_ms() + 11_000, "{loan:?}");
        assert_eq!(borrower.borrows().worker, loan.worker);
    }
    // Another pool has its own numbers, and neither is leafd's.
    let mut other = Borrower::of(hosts[0].home(), "other");
    let loan = other.borrows();
    assert_eq!((loan.worker, loan.bits), (0, 16));
    assert_eq!((registry.owned().len(), hosts[0].serves(), hosts[1].serves()), (2, 0, 1));
    let (code, out, _) = hosts[1].leafctl(&["status"]);
    assert_eq!(code, Some(0), "{out}");
}

fn a_loan_outlives_leafd_with_and_without_the_registry(kind: &'static dyn RegistryKind) {
    let registry = TestRegistry::alone(kind, 1);
    let mut host = host(&registry, "a");
    host.start();
    let mut other = Borrower::of(host.home(), "default");
    let mut borrower = Borrower::of(host.home(), "default");
    assert_eq!((other.borrows().worker, borrower.borrows().worker), (0, 1));
    host.kill();
    host.start();
    let loan = borrower.borrows();
    assert_eq!(loan.worker, 1, "the next leafd goes on with it");
    host.stop();
    host.start();
    assert_eq!(borrower.borrows().worker, 1);

    registry.kill_all();
    host.kill();
    host.start();
    let during = borrower.borrows();
    assert_eq!((during.worker, &during.claim), (1, &loan.claim));
    let refused = borrower.is_refused(ErrorCode::WorkerUnavailable);
    assert!(refused.retry_after_ms > 0, "{refused}");
    registry.start_all();
    assert_eq!(borrower.borrows().worker, 1, "nobody else got it");
    other.disconnects();
    host.gives_enough("with loans beside");
}

fn a_returned_worker_id_is_lent_again_from_the_time_that_was_recorded(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::shared(kind);
    let mut hosts = [host(&registry, "a"), host(&registry, "b")];
    registry.start_in_order(hosts.iter_mut());
    let mut first = Borrower::of(hosts[0].home(), "tiny");
    let worker = first.borrows().worker;
    let mut other = Borrower::of(hosts[1].home(), "tiny");
    assert_ne!(other.borrows().worker, worker);
    let used_ms = now_ms() + 3000;
    assert_eq!(first.returns(used_ms).left_ms, 0);
    // The next borrower of this host gets it at once.
    let mut next = Borrower::of(hosts[0].home(), "tiny");
    let loan = next.borrows();
    assert_eq!((loan.worker, loan.start_unix_ms), (worker, used_ms));
    next.returns(0);
    // A stop gives it back, with that time; then it is anybody's.
    let ended = hosts[0].stop();
    let mut elsewhere = Borrower::of(hosts[1].home(), "tiny");
    let loan = elsewhere.borrows();
    assert!(loan.worker == worker && loan.start_unix_ms >= used_ms, "{loan:?}\n{ended}");
}

fn a_worker_id_whose_leafd_and_borrower_are_gone_is_lent_again_after_reclaim_after(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::shared(kind);
    let mut hosts = [host(&registry, "a"), host(&registry, "b")];
    registry.start_in_order(hosts.iter_mut());
    let [mut gone, mut stays] = [0, 1].map(|at: usize| Borrower::of(hosts[at].home(), "tiny"));
    let both = BTreeSet::from([gone.borrows().worker, stays.borrows().worker]);
    assert_eq!(both, BTreeSet::from([0, 1]));
    let mut third = Borrower::of(hosts[1].home(), "tiny");
    let refused = third.is_refused(ErrorCode::WorkerUnavailable);
    let lost = gone.borrows();
    hosts[0].kill();
    let killed = Instant::now();
    gone.disconnects();
    let loan = third.borrows();
    assert_eq!(loan.worker, lost.worker, "{refused}");
    let after = killed.elapsed();
    // The last report came at most one interval before the kill, and some time may be lost to rounding.
    assert!(after >= RECLAIM - Duration::from_secs(4), "{after:?}");
    assert!(loan.start_unix_ms >= lost.limit_unix_ms, "{loan:?} after {lost:?}");
    // Its first borrower comes back, and hears that it has lost it.
    gone.moves_to(hosts[1].home());
    let refused = gone.ask().unwrap_err();
    assert!(
        refused.to_string().contains("211") || refused.to_string().contains("305"),
        "{refused}"
    );
    assert_eq!(stays.borrows().bits, 1);
    assert!(after > FENCE);
}

fn whoever_makes_up_loans_does_not_make_others_wait_for_theirs(kind: &'static dyn RegistryKind) {
    const MADE_UP: u64 = 40;
    let registry = TestRegistry::shared(kind);
    let mut hosts = [host(&registry, "a"), host(&registry, "b")];
    registry.start_in_order(hosts.iter_mut());
    let mut honest = Borrower::of(hosts[0].home(), "default");
    let loan = honest.borrows();
    // The numbers that would come next.
    let mut liars: Vec<_> = (1..=MADE_UP)
        .map(|more| {
            let mut liar = Borrower::of(hosts[0].home(), "default");
            liar.pretends(loan.worker + more, &loan);
            let _ = liar.ask();
            liar
        })
        .collect();
    for liar in &mut liars {
        liar.borrows();
    }
    let mut newcomer = Borrower::of(hosts[1].home(), "default");
    let mut met = BTreeSet::new();
    let began = Instant::now();
    let lent = loop {
        match newcomer.ask() {
            Ok(loan) => break loan.worker,
            Err(error) => {
                assert!(began.elapsed() < leafd_tests::PATIENCE, "{error}: {met:?}");
                let text = error.to_string();
                met.extend(text.contains("is also that of").then_some(text));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(met, BTreeSet::new(), "numbers that others had");
    assert!(!(loan.worker..=loan.worker + MADE_UP).contains(&lent), "{lent}");
    assert_eq!(honest.borrows().worker, loan.worker);
}

#[test]
fn without_a_shared_registry_or_such_a_pool_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = leafd_tests::daemon::Home::new(folder.path()).start();
    let refused = Borrower::of(daemon.home(), "default").is_refused(ErrorCode::NotConfigured);
    assert!(refused.message.contains("worker.registry"), "{refused}");

    let registry = TestRegistry::shared(&leafd_tests::registry::ZooKeeper);
    let mut host = host(&registry, "a").with("LEND_MAX_PER_USER", "1");
    host.start();
    let refused = Borrower::of(host.home(), "nobodys").is_refused(ErrorCode::NotConfigured);
    assert!(refused.message.contains("lend.pools has: default, other, tiny"), "{refused}");
    let mut one = Borrower::of(host.home(), "default");
    one.borrows();
    let refused = Borrower::of(host.home(), "default").is_refused(ErrorCode::WorkerUnavailable);
    assert!(refused.message.contains("lend.max-per-user"), "{refused}");
}

#[test]
fn metrics_tell_what_a_pool_has_lent() {
    let registry = TestRegistry::shared(&leafd_tests::registry::ZooKeeper);
    let mut host = host(&registry, "a").with("HTTP_LISTEN", "127.0.0.1:0");
    host.start();
    let address = scrape::address(host.home(), 1);
    let tells = |what: &str, expected: [(&str, f64); 4]| {
        let began = Instant::now();
        loop {
            let scraped = scrape::scrape(address);
            let loans = |state| scraped.value("leafd_loans", &[("pool", "tiny"), ("state", state)]);
            let told = expected.map(|(state, _)| (state, loans(state)));
            if told == expected {
                return scraped.value("leafd_loans_begun_total", &[("pool", "tiny")]);
            }
            assert!(began.elapsed() < leafd_tests::PATIENCE, "{what}: {told:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let none = [("lent", 0.0), ("adrift", 0.0), ("idle", 0.0), ("abandoned", 0.0)];
    tells("before", none);
    let [mut first, mut second] = [0, 1].map(|_| Borrower::of(host.home(), "tiny"));
    let _ = (first.borrows(), second.borrows());
    let full = [("lent", 2.0), ("adrift", 0.0), ("idle", 0.0), ("abandoned", 0.0)];
    assert!((tells("two", full) - 2.0).abs() < f64::EPSILON);
    let mut third = Borrower::of(host.home(), "tiny");
    let began = Instant::now();
    loop {
        let refused = third.is_refused(ErrorCode::WorkerUnavailable).message;
        if refused.contains("all 2 worker IDs of the pool are taken") {
            assert!(refused.contains("End borrowers by SIGTERM"), "{refused}");
            break;
        }
        assert!(began.elapsed() < leafd_tests::PATIENCE, "{refused}");
        std::thread::sleep(Duration::from_millis(50));
    }
    first.disconnects();
    let left = [("lent", 1.0), ("adrift", 1.0), ("idle", 1.0), ("abandoned", 0.0)];
    tells("one is gone", left);
    second.returns(0);
}

#[test]
fn an_operator_lists_and_releases_the_worker_ids_of_a_pool() {
    let registry = TestRegistry::shared(&leafd_tests::registry::ZooKeeper);
    let mut hosts = [host(&registry, "a"), host(&registry, "b")];
    registry.start_in_order(hosts.iter_mut());
    let mut borrower = Borrower::of(hosts[0].home(), "tiny");
    let worker = borrower.borrows().worker;
    let mut other = Borrower::of(hosts[1].home(), "tiny");
    assert_eq!((worker, other.borrows().worker), (0, 1));
    let mut client = leaf_client::blocking::Client::connect(hosts[1].home().options()).unwrap();
    let listed = client.pool_list("tiny", 0, 100).unwrap();
    let owner = &listed[0].owner;
    assert!(listed.len() == 2 && owner.starts_with("a/"), "{listed:?}");
    assert!((listed[0].worker, listed[0].live, listed[0].own) == (worker, true, false));
    let refused = client.pool_release("tiny", worker, owner).unwrap_err();
    assert!(refused.to_string().contains("is live"), "{refused}");
    hosts[0].kill();
    borrower.disconnects();
    let began = Instant::now();
    while client.pool_list("tiny", 0, 100).unwrap()[0].live {
        assert!(began.elapsed() < leafd_tests::PATIENCE, "its session does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.pool_release("tiny", worker, owner).unwrap();
    let mut next = Borrower::of(hosts[1].home(), "tiny");
    assert_eq!(next.borrows().worker, worker);
}
