//! A row goes back behind what was leased from it: it is edited by hand, recreated, or restored from a
//! backup. No ID is issued twice, leafd logs it, and moves the row forward, never back.

use std::time::Duration;

use leaf_client::wire::ErrorCode;
use leafd_tests::caller::{Caller, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Daemon, Database, StoreServer, UniqueIds, on_every_store_server};

/// The deadline of requests that may be refused.
const SHORT: Duration = Duration::from_millis(700);

on_every_store_server! {
    a_row_set_back_by_hand_under_load_gives_no_id_twice,
    tags_of_a_cleared_table_end_and_a_refilled_table_repeats_no_id,
    a_backup_restored_while_leafd_is_down_or_runs_gives_no_id_twice,
    the_refresh_moves_a_row_forward_without_a_lease_and_never_back,
    a_daemon_protects_what_it_saw_another_daemon_lease,
    ids_issued_twice_after_a_restore_lie_below_the_value_in_the_log_line,
}

const SAID: &str = "went backwards";

/// How the row of "orders" goes back.
#[derive(Debug, Clone, Copy)]
enum Back {
    To(i64),
    ToLowest,
    /// To half, and with another step.
    Half,
    ByOne,
    /// Deleted and inserted at once.
    Recreated,
}

impl Back {
    /// One statement or transaction.
    fn set_rows(self, database: &Database, table: &str) {
        let statements = match self {
            Self::To(max_id) => vec![format!("UPDATE {table} SET max_id = {max_id}")],
            Self::ToLowest => vec![format!("UPDATE {table} SET max_id = 0")],
            Self::Half => vec![format!("UPDATE {table} SET max_id = max_id / 2, step = 7")],
            Self::ByOne => vec![format!("UPDATE {table} SET max_id = max_id - 1")],
            Self::Recreated => vec![
                format!("DELETE FROM {table}"),
                format!("INSERT INTO {table} (biz_tag, max_id, step) VALUES ('orders', 1, 100)"),
            ],
        };
        let mut session = database.session();
        session.execute("BEGIN");
        statements.iter().for_each(|statement| session.execute(statement));
        session.execute("COMMIT");
    }

    fn set(self, server: &StoreServer) {
        match server {
            StoreServer::Sql(database) => self.set_rows(database, "leaf_alloc"),
            StoreServer::Several(several) => {
                let databases = several.databases().iter();
                databases.for_each(|database| self.set_rows(database, "leafd_share_tag"));
            }
            StoreServer::Redis(redis) => {
                let key = leafd_tests::redis::key("orders");
                let script = match self {
                    Self::To(_) | Self::ToLowest => "redis.call('SET', KEYS[1], 0)",
                    Self::Half => {
                        "redis.call('SET', KEYS[1], math.floor(redis.call('GET', KEYS[1]) / 2)) \
                         redis.call('HSET', 'leafd:steps', KEYS[1], 7)"
                    }
                    Self::ByOne => "redis.call('DECR', KEYS[1])",
                    Self::Recreated => {
                        "redis.call('DEL', KEYS[1], 'leafd:leases', 'leafd:steps') \
                         redis.call('SET', KEYS[1], 0)"
                    }
                };
                redis.run(&["EVAL", script, "1", &key]);
            }
        }
    }
}

fn a_row_set_back_by_hand_under_load_gives_no_id_twice(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 100);
    let home = Home::new(folder.path()).with_store(&server).with("SEGMENT_MAX_STEP", "1000");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let orders = Caller::of(&daemon, "orders", &seen);
    for (number, back) in
        (1..).zip([Back::To(1), Back::ToLowest, Back::Half, Back::ByOne, Back::Recreated])
    {
        for _ in 0..10 {
            orders.gets(100);
        }
        orders.fills_memory();
        let highest = seen.highest("orders").unwrap();
        let leases = orders.status().unwrap().leases;
        back.set(&server);
        wait_until(&home, "leases follow", || {
            orders.gets(100);
            orders.status().unwrap().leases > leases + 1
        });
        home.log().wait_times(SAID, number);
        assert!(u64::try_from(server.max_id("orders")).unwrap() > highest, "{back:?}");
    }
    let ended = daemon.stop();
    assert_eq!(ended.count(SAID), 5, "once each\n{ended}");
}

fn tags_of_a_cleared_table_end_and_a_refilled_table_repeats_no_id(kind: StoreServerKind) {
    // The refresh notices it, or the next lease if that comes first.
    for refresh in ["200ms", "1h"] {
        let folder = tempfile::tempdir().unwrap();
        let server = StoreServer::with_tag(kind, "orders", 100);
        let home = Home::new(folder.path())
            .with_store(&server)
            .with("SEGMENT_UNKNOWN_FOR", "0s")
            .with("SEGMENT_REFRESH", refresh);
        let daemon = home.start();
        let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
        orders.gets(1000);
        orders.fills_memory();
        server.delete_tag("orders");
        wait_until(&home, "orders ends", || match orders.ask(1, SHORT) {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::UnknownTag, "{error}");
                true
            }
        });
        home.log().wait_for("gone from the store");
        server.insert_tag("orders", 1, 100);
        wait_until(&home, "orders is back", || orders.ask(1, SHORT).is_ok());
        orders.gets(5000);
        home.log().wait_for(SAID);
        let ended = daemon.stop();
        assert_eq!(ended.count(SAID), 1, "{ended}");
    }
}

fn a_backup_restored_while_leafd_is_down_or_runs_gives_no_id_twice(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 100);
    let home = Home::new(folder.path()).with_store(&server);
    let mut daemon = home.start();
    let seen = UniqueIds::default();
    let orders = Caller::of(&daemon, "orders", &seen);
    orders.gets(50);
    let backup = server.max_id("orders");
    let restore = || server.forget("orders", backup);
    for (number, down) in (1..).zip([false, true, true]) {
        orders.gets(20_000);
        if down {
            daemon.stop();
            restore();
            daemon = home.start();
        } else {
            restore();
        }
        let highest = seen.highest("orders").unwrap();
        wait_until(&home, "leases follow", || {
            orders.gets(1000);
            u64::try_from(server.max_id("orders")).unwrap() > highest + 1
        });
        orders.gets(20_000);
        home.log().wait_times(SAID, number);
    }
    let ended = daemon.stop();
    assert_eq!(ended.count(SAID), 3, "once each\n{ended}");
}

fn the_refresh_moves_a_row_forward_without_a_lease_and_never_back(kind: StoreServerKind) {
    let folder = tempfile::tempdir().unwrap();
    let server = StoreServer::with_tag(kind, "orders", 100);
    let home = Home::new(folder.path()).with_store(&server).with("SEGMENT_REFRESH", "200ms");
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    orders.gets(50);
    orders.fills_memory();
    let (max_id, leases) = (server.max_id("orders"), orders.status().unwrap().leases);
    for (number, back) in (1..).zip([1, server.lowest_max_id(), max_id - 1]) {
        server.set_max_id("orders", back);
        wait_until(&home, "the row is moved forward", || server.max_id("orders") != back);
        assert_eq!(server.max_id("orders"), max_id);
        home.log().wait_times(SAID, number);
    }
    // A row that others moved forward stays there.
    server.set_max_id("orders", max_id + 5000);
    let ahead = u64::try_from(max_id).unwrap() + 5000;
    orders.wait_status("the refresh sees it", |status| status.max_id == ahead);
    server.set_max_id("orders", 1);
    wait_until(&home, "the row is moved forward", || server.max_id("orders") != 1);
    assert_eq!(server.max_id("orders"), max_id + 5000);
    assert_eq!(orders.status().unwrap().leases, leases, "a lease was taken");
    daemon.stop();
}

fn a_daemon_protects_what_it_saw_another_daemon_lease(kind: StoreServerKind) {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let server = StoreServer::with_tag(kind, "orders", 100);
    let homes = [0, 1].map(|worker| {
        Home::new(folders[worker].path())
            .with_store(&server)
            .with("SEGMENT_REFRESH", "200ms")
            .with("WORKER_ID", &worker.to_string())
    });
    let daemons: [Daemon; 2] = [homes[0].start(), homes[1].start()];
    let seen = UniqueIds::default();
    let [here, there] = [0, 1].map(|number| Caller::of(&daemons[number], "orders", &seen));
    here.gets(10);
    here.fills_memory();
    for _ in 0..5 {
        there.gets(10_000);
    }
    there.fills_memory();
    let max_id = server.max_id("orders");
    let there_to = u64::try_from(max_id).unwrap();
    here.wait_status("what the other leased is seen", |status| status.max_id >= there_to);
    // The other daemon must not react meanwhile.
    daemons[1].freeze();
    let leases = here.status().unwrap().leases;
    for (number, back) in [(1, 1), (2, 300)] {
        server.set_max_id("orders", back);
        wait_until(&homes[0], "the row is moved forward", || server.max_id("orders") == max_id);
        homes[0].log().wait_times(SAID, number);
    }
    assert_eq!(here.status().unwrap().leases, leases, "by the refresh alone");
    // Or by a lease, if that comes first.
    server.set_max_id("orders", 1);
    here.gets(5000);
    daemons[1].thaw();
    std::thread::scope(|scope| {
        for caller in [&here, &there] {
            scope.spawn(|| (0..50).for_each(|_| caller.gets(500)));
        }
    });
    assert!(server.max_id("orders") > max_id);
    println!("{} IDs of two daemons over three steps back", seen.total());
    for daemon in daemons {
        daemon.stop();
    }
}

fn ids_issued_twice_after_a_restore_lie_below_the_value_in_the_log_line(kind: StoreServerKind) {
    const RESTORED: u64 = 1001;
    let server = StoreServer::with_tag(kind, "orders", 100);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |folder: &tempfile::TempDir| {
        let home = Home::new(folder.path()).with_store(&server);
        home.with("SEGMENT_REFRESH", "1h").start()
    };
    let takes = |daemon: &Daemon| -> Vec<u64> {
        daemon.client().next_many("orders", 500).unwrap().into_iter().collect()
    };
    let before = start(&folders[0]);
    let mut first: Vec<u64> = (0..10).flat_map(|_| takes(&before)).collect();
    // Otherwise a lease in flight might see the restored row first.
    Caller::of(&before, "orders", &UniqueIds::default()).fills_memory();
    server.forget("orders", RESTORED.cast_signed());
    // A host that has never seen the tag leases from the restored row.
    let since = start(&folders[1]);
    let second: Vec<u64> = (0..3).flat_map(|_| takes(&since)).collect();
    let said =
        before.home().log().wait_while(|line| line.contains(SAID), || first.extend(takes(&before)));
    let line = said.lines().last().unwrap();
    let words = line.split(SAID).nth(1).unwrap().replace(',', "");
    let numbers: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
    let (found, mark) = (numbers[0], numbers[1]);
    assert!(line.contains(&format!("found={found} mark={mark}")), "{line}");
    let twice: Vec<u64> = second.into_iter().filter(|id| first.contains(id)).collect();
    assert!(!twice.is_empty() && found < mark, "{line}");
    assert!(twice.iter().all(|id| (RESTORED..found).contains(id)), "{line}\n{twice:?}");
    before.stop();
    since.stop();
}
