//! A database that loses confirmed leases, by an asynchronous failover or a restored copy of its data. With the
//! table of witnesses no ID comes twice, whichever host leases first, and leases go on by themselves once every
//! host is there. Without it, the same losses repeat IDs.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use leaf_client::blocking;
use leaf_client::wire::ErrorCode;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::load::Load;
use leafd_tests::long::short_or_long;
use leafd_tests::proxy::Proxy;
use leafd_tests::{Daemon, Database, UniqueIds, on_every_database};
use tempfile::TempDir;

on_every_database! {
    a_host_that_wrote_nothing_in_the_lost_time_repeats_no_id_of_one_that_did,
    without_the_table_the_same_failover_repeats_ids,
    four_hosts_under_load_repeat_no_id_over_failovers_that_lose_leases,
    four_hosts_under_load_repeat_no_id_when_copies_of_the_data_are_restored,
    a_host_that_is_missing_holds_up_leases_until_it_is_back_and_memory_serves,
    an_operator_or_the_policy_goes_on_without_a_host_that_is_gone_for_good,
    tables_restored_by_sql_while_the_server_runs_repeat_no_id,
    a_tag_whose_row_was_lost_begins_above_its_ids_when_it_is_made_again,
    the_table_can_be_added_while_a_fleet_runs_and_leases_stop_if_it_disappears,
}

/// How long a test waits before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server that takes over from one that has not sent it all.
struct FailoverPair {
    primary: Database,
    replica: Database,
    /// Between the two.
    line: Proxy,
}

impl FailoverPair {
    fn start(kind: Kind, prepare: impl FnOnce(&Database)) -> Self {
        let primary = Database::start_primary(kind);
        primary.create_table();
        prepare(&primary);
        Self::following(primary)
    }

    fn following(primary: Database) -> Self {
        let line = Proxy::to(primary.port());
        let replica = primary.start_replica(line.port());
        let pair = Self { primary, replica, line };
        pair.wait_until_it_follows();
        pair
    }

    fn wait_until_it_follows(&self) {
        let tags = "SELECT biz_tag, max_id FROM leaf_alloc ORDER BY biz_tag";
        let began = Instant::now();
        // Leases go on meanwhile, so the replica may always be a little behind.
        loop {
            let before = self.primary.query(tags);
            std::thread::sleep(Duration::from_millis(50));
            if self.has_rows() && self.replica.query(tags) >= before {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the replica does not follow");
        }
    }

    /// The replica may not even have the tables yet.
    fn has_rows(&self) -> bool {
        let tables =
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'leaf_alloc'";
        self.replica.query(tables).into_iter().flatten().flatten().any(|count| count != "0")
    }

    /// From now on the replica gets nothing.
    fn cut(&self) {
        self.line.cut();
    }

    /// The primary dies, and the replica takes its place.
    fn fail_over(self, network: &Proxy) -> Database {
        self.primary.kill();
        self.replica.promote();
        network.lead_to(self.replica.port());
        network.cut();
        network.pass();
        self.replica
    }
}

/// A host of its own, which reaches the database through `network`.
fn home(folder: &TempDir, number: usize, database: &Database, network: &Proxy) -> Home {
    let folder = folder.path().join(number.to_string());
    std::fs::create_dir(&folder).unwrap();
    Home::new(&folder)
        .with_database_at(database, &database.url_at(network.port()))
        .with("STATE_MACHINE_ID", &format!("host-{number}"))
        .with("WORKER_IDENTITY", &format!("host-{number}"))
        .with("WORKER_ID", &number.to_string())
}

/// Takes IDs, and returns how many of them were known already.
fn take(daemon: &Daemon, count: u32, seen: &mut HashSet<u64>) -> usize {
    let mut client = blocking::Client::new(daemon.home().options().timeout(PATIENCE));
    let ids = client.next_many("orders", count).unwrap();
    ids.iter().filter(|id| !seen.insert(*id)).count()
}

/// One host leases what the database loses, and another one leases first afterwards. Returns how many IDs came
/// twice.
fn repeated_by_a_failover(kind: Kind, with_table: bool) -> usize {
    let pair = FailoverPair::start(kind, |primary| {
        primary.insert_tag("orders", 1, 100);
        if with_table {
            primary.create_witness_table();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let network = Proxy::to(pair.primary.port());
    // Long, so that no host sees by itself what the other has leased.
    let start = |number| {
        let home = home(&folder, number, &pair.primary, &network).with("SEGMENT_REFRESH", "1h");
        home.with("SEGMENT_MAX_STEP", "1000").start()
    };
    let (a, b) = (start(1), start(2));
    let mut seen = HashSet::new();
    for daemon in [&a, &b] {
        assert_eq!(take(daemon, 10, &mut seen), 0);
    }
    pair.wait_until_it_follows();
    pair.cut();
    let before = pair.primary.max_id("orders");
    for _ in 0..50 {
        assert_eq!(take(&a, 1000, &mut seen), 0);
    }
    assert!(pair.primary.max_id("orders") > before + 40_000);
    if !with_table {
        // It would move the row forward as soon as it looks at it; the other host may be faster.
        a.freeze();
    }
    let replica = pair.fail_over(&network);
    assert!(replica.max_id("orders") <= before, "nothing was lost");
    let repeated = (0..50).map(|_| take(&b, 1000, &mut seen)).sum();
    if !with_table {
        a.thaw();
    }
    println!("{kind:?}, with the table: {with_table}: {repeated} of 50,000 IDs came twice");
    a.stop();
    b.stop();
    repeated
}

fn a_host_that_wrote_nothing_in_the_lost_time_repeats_no_id_of_one_that_did(kind: Kind) {
    assert_eq!(repeated_by_a_failover(kind, true), 0);
}

fn without_the_table_the_same_failover_repeats_ids(kind: Kind) {
    assert!(repeated_by_a_failover(kind, false) > 1000);
}

/// Four hosts, with clients that have time to wait.
struct Crowd {
    daemons: Vec<Daemon>,
    loads: Vec<Load>,
    seen: UniqueIds,
    _folder: TempDir,
}

const TAGS: [&str; 2] = ["orders", "bills"];

impl Crowd {
    fn start(database: &Database, network: &Proxy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seen = UniqueIds::default();
        let daemons: Vec<_> = (1..=4)
            .map(|number| {
                let home = home(&folder, number, database, network);
                home.with("SEGMENT_MAX_STEP", "5000").start()
            })
            .collect();
        let loads = daemons.iter().map(|daemon| {
            let options = daemon.home().options().timeout(PATIENCE);
            Load::start(&options, &seen, &TAGS, 1000)
        });
        let loads = loads.collect();
        Self { daemons, loads, seen, _folder: folder }
    }

    /// Waits until every client was served twice more.
    fn goes_on(&self) {
        let before: Vec<_> = self.loads.iter().map(Load::served).collect();
        let began = Instant::now();
        for ((load, before), daemon) in self.loads.iter().zip(before).zip(&self.daemons) {
            while load.served().iter().zip(&before).any(|(now, before)| *now < before + 2) {
                let log = || daemon.home().log();
                assert!(!load.is_broken(), "a client has ended\n{}", log());
                assert!(began.elapsed() < PATIENCE, "a client is not served\n{}", log());
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Waits until leases were taken of every tag.
    fn leases(&self, database: &Database) {
        let before = TAGS.map(|tag| database.max_id(tag));
        wait_until(self.daemons[0].home(), "leases", || {
            TAGS.iter().zip(before).all(|(tag, before)| database.max_id(tag) > before + 20_000)
        });
    }

    fn finish(self, kind: Kind, what: &str, losses: usize) {
        let mut failures = 0;
        for load in self.loads {
            failures += load.finish();
        }
        let logs: Vec<_> = self.daemons.into_iter().map(Daemon::stop).collect();
        let raised: usize =
            logs.iter().map(|log| log.count("the database had lost leases of this host")).sum();
        println!(
            "{kind:?}: {} IDs, none twice, over {losses} {what}; {raised} times a host found its \
             leases lost; {failures} calls failed",
            self.seen.total()
        );
        assert_eq!(failures, 0);
        assert!(raised >= losses, "{raised} of {losses} losses had leases in them");
    }
}

fn prepare_two_tags(database: &Database) {
    for tag in TAGS {
        database.insert_tag(tag, 1, 1000);
    }
    database.create_witness_table();
}

fn four_hosts_under_load_repeat_no_id_over_failovers_that_lose_leases(kind: Kind) {
    let losses = short_or_long(2, 50);
    let mut pair = FailoverPair::start(kind, prepare_two_tags);
    let network = Proxy::to(pair.primary.port());
    let crowd = Crowd::start(&pair.primary, &network);
    for loss in 0..losses {
        crowd.goes_on();
        pair.cut();
        crowd.leases(&pair.primary);
        let promoted = pair.fail_over(&network);
        crowd.goes_on();
        if loss + 1 == losses {
            crowd.finish(kind, "failovers that lost leases", losses);
            return;
        }
        pair = FailoverPair::following(promoted);
    }
}

fn four_hosts_under_load_repeat_no_id_when_copies_of_the_data_are_restored(kind: Kind) {
    let losses = short_or_long(2, 50);
    let database = Database::start(kind);
    database.create_table();
    prepare_two_tags(&database);
    let network = Proxy::to(database.port());
    let crowd = Crowd::start(&database, &network);
    for _ in 0..losses {
        crowd.goes_on();
        database.stop();
        let copy = database.back_up();
        database.start_again();
        crowd.goes_on();
        crowd.leases(&database);
        database.kill();
        database.restore(&copy);
        database.start_again();
        crowd.goes_on();
    }
    crowd.finish(kind, "copies of the data that were restored", losses);
}

fn a_host_that_is_missing_holds_up_leases_until_it_is_back_and_memory_serves(kind: Kind) {
    let database = Database::start(kind);
    database.create_table();
    database.insert_tag("orders", 1, 1000);
    database.create_witness_table();
    let network = Proxy::to(database.port());
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [1, 2].map(|number| home(&folder, number, &database, &network).start());
    let mut seen = HashSet::new();
    for daemon in [&a, &b] {
        assert_eq!(take(daemon, 1, &mut seen), 0);
    }
    let home_of_b = b.home().clone();
    b.kill();
    database.restart();
    let log = a.home().log();
    log.wait_for("1: host-2");
    // What is in memory is served; there are at least the rest of one range and the next.
    assert_eq!(take(&a, 500, &mut seen), 0);
    let mut client = a.client();
    let refused = std::iter::repeat_with(|| client.next_many("orders", 1000)).find_map(Result::err);
    let refused = refused.expect("an error");
    let code = match &refused {
        leaf_client::Error::Refused(refusal) => refusal.code(),
        other => panic!("{other}"),
    };
    assert_eq!(code, ErrorCode::StoreUnavailable, "{refused}");
    let b = home_of_b.start();
    wait_until(a.home(), "leases go on", || client.next_many("orders", 1000).is_ok());
    assert_eq!(take(&b, 1000, &mut seen), 0);
    a.stop();
    b.stop();
}

fn an_operator_or_the_policy_goes_on_without_a_host_that_is_gone_for_good(kind: Kind) {
    for policy in ["wait", "skip"] {
        let database = Database::start(kind);
        database.create_table();
        database.insert_tag("orders", 1, 1000);
        database.create_witness_table();
        let network = Proxy::to(database.port());
        let folder = tempfile::tempdir().unwrap();
        let start = |number| {
            let home = home(&folder, number, &database, &network);
            let home = home.with("STORE_MISSING_HOSTS", policy).with("STORE_MISSING_AFTER", "10s");
            home.with("STORE_MISSING_MARGIN", "700000").start()
        };
        let (a, b) = (start(1), start(2));
        let mut seen = HashSet::new();
        for daemon in [&a, &b] {
            assert_eq!(take(daemon, 1, &mut seen), 0);
        }
        b.kill();
        let before = database.max_id("orders");
        database.restart();
        if policy == "wait" {
            a.home().log().wait_for("1: host-2");
            let accept_loss = |arguments: &[&str]| {
                a.home().run("leafctl", &[&["store", "accept-loss"], arguments].concat())
            };
            let (code, shown, _) = accept_loss(&[]);
            assert_eq!(code, Some(0), "{shown}");
            assert!(shown.contains("epoch 2 is open"), "{shown}");
            let missing = shown.lines().find(|line| line.contains("MISSING"));
            assert!(missing.is_some_and(|line| line.starts_with("host-2")), "{shown}");
            let (code, _, error) = accept_loss(&["--epoch", "1", "--margin", "700000"]);
            assert!(code == Some(64) && error.contains("epoch 1 is not open"), "{error}");
            let accept = ["--epoch", "2", "--margin", "700000"];
            // The other host wrote its row a moment before it was killed.
            wait_until(a.home(), "the loss is accepted", || accept_loss(&accept).0 == Some(0));
        } else {
            a.home().log().wait_for("every tag skips IDs");
        }
        assert_eq!(database.max_id("orders"), before + 700_000);
        for _ in 0..3 {
            assert_eq!(take(&a, 1000, &mut seen), 0);
        }
        a.stop();
    }
}

fn tables_restored_by_sql_while_the_server_runs_repeat_no_id(kind: Kind) {
    let database = Database::start(kind);
    database.create_table();
    database.insert_tag("orders", 1, 100);
    database.create_witness_table();
    let network = Proxy::to(database.port());
    let folder = tempfile::tempdir().unwrap();
    let start =
        |number| home(&folder, number, &database, &network).with("SEGMENT_REFRESH", "1h").start();
    let (a, b) = (start(1), start(2));
    let mut seen = HashSet::new();
    for daemon in [&a, &b] {
        assert_eq!(take(daemon, 10, &mut seen), 0);
    }
    for (table, copy) in [("leaf_alloc", "old_alloc"), ("leafd_witness", "old_witness")] {
        database.sql(&format!("CREATE TABLE {copy} AS SELECT * FROM {table}"));
    }
    // A host writes its row when something happens in the table, and otherwise once a minute.
    let c = start(3);
    assert_eq!(take(&c, 10, &mut seen), 0);
    let is_later = "SELECT COUNT(*) FROM leafd_witness new JOIN old_witness old ON old.host = new.host \
                    WHERE new.beat > old.beat AND old.presence = 'here'";
    wait_until(a.home(), "both have written their rows", || {
        database.query(is_later).into_iter().flatten().flatten().any(|count| count == "2")
    });
    for _ in 0..20 {
        assert_eq!(take(&a, 1000, &mut seen), 0);
    }
    let mut session = database.session();
    session.execute("BEGIN");
    for (table, copy) in [("leaf_alloc", "old_alloc"), ("leafd_witness", "old_witness")] {
        session.execute(&format!("DELETE FROM {table}"));
        session.execute(&format!("INSERT INTO {table} SELECT * FROM {copy}"));
    }
    session.execute("COMMIT");
    let mut client = b.client();
    let mut taken = 0;
    wait_until(b.home(), "leases go on", || {
        if let Ok(ids) = client.next_many("orders", 1000) {
            assert!(ids.iter().all(|id| seen.insert(id)), "{}", b.home().log());
            taken += 1;
        }
        taken == 20
    });
    for daemon in [a, b, c] {
        daemon.stop();
    }
}

fn a_tag_whose_row_was_lost_begins_above_its_ids_when_it_is_made_again(kind: Kind) {
    let pair = FailoverPair::start(kind, |primary| {
        primary.insert_tag("other", 1, 100);
        primary.create_witness_table();
    });
    let folder = tempfile::tempdir().unwrap();
    let network = Proxy::to(pair.primary.port());
    let start = |number| {
        let home = home(&folder, number, &pair.primary, &network);
        home.with("SEGMENT_AUTO_CREATE", "true").start()
    };
    let (a, b) = (start(1), start(2));
    for daemon in [&a, &b] {
        blocking::Client::new(daemon.home().options().timeout(PATIENCE)).next("other").unwrap();
    }
    pair.wait_until_it_follows();
    pair.cut();
    let mut seen = HashSet::new();
    // Both write a tombstone for it at the same time, and the higher one counts.
    for daemon in [&b, &a, &b, &a, &a, &a, &a, &a] {
        assert_eq!(take(daemon, 1000, &mut seen), 0);
    }
    let _promoted = pair.fail_over(&network);
    let mut client = b.client();
    let mut taken = 0;
    wait_until(b.home(), "the tag is made again", || {
        if let Ok(ids) = client.next_many("orders", 1000) {
            assert!(ids.iter().all(|id| seen.insert(id)), "{}", b.home().log());
            taken += 1;
        }
        taken == 10
    });
    a.stop();
    b.stop();
}

fn the_table_can_be_added_while_a_fleet_runs_and_leases_stop_if_it_disappears(kind: Kind) {
    let database = Database::start(kind);
    database.create_table();
    database.insert_tag("orders", 1, 100);
    let network = Proxy::to(database.port());
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [1, 2].map(|number| home(&folder, number, &database, &network).start());
    let mut seen = HashSet::new();
    for daemon in [&a, &b] {
        assert_eq!(take(daemon, 10, &mut seen), 0);
    }
    database.create_witness_table();
    let here = "SELECT COUNT(*) FROM leafd_witness WHERE presence = 'here' AND confirmed > 0";
    wait_until(a.home(), "both have joined", || {
        database.query(here).into_iter().flatten().flatten().any(|count| count == "2")
    });
    for daemon in [&a, &b] {
        assert_eq!(take(daemon, 1000, &mut seen), 0);
    }
    database.sql("DROP TABLE leafd_witness");
    a.home().log().wait_for("the table leafd_witness is gone");
    // Without the table a restart goes on.
    let home = a.home().clone();
    a.stop();
    let a = home.start();
    assert_eq!(take(&a, 1000, &mut seen), 0);
    a.stop();
    b.stop();
}
