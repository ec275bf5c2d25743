//! Many hosts on the same rows, whatever the server's defaults. No ID is leased twice or lost, and no
//! host waits forever.

use std::sync::Arc;

use leafd::store::LeaseAsk;
use leafd::store::{Leased, NewTag, Store, StoreError};
use leafd_tests::database::{Database, Extra, Kind};
use leafd_tests::on_every_store;
use leafd_tests::stores::{TestStore, join, run, span, spawn, tag};

on_every_store! {
    many_hosts_on_one_row_get_every_id_once,
    no_id_is_leased_twice_while_rows_are_created_raised_and_changed,
    exactly_one_of_several_hosts_that_create_a_tag_at_once_succeeds,
}

const HOSTS: usize = 8;
const AT_ONCE: usize = 2;

/// One change of a row.
#[derive(Debug, Clone, Copy)]
enum Done {
    Leased(Leased),
    Raised { from: u64, to: u64 },
}

/// Repeats a call while the row is busy.
async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match call().await {
            Err(StoreError::Busy(_)) => {}
            outcome => return outcome,
        }
    }
}

async fn lease_often(
    store: Arc<dyn Store>,
    names: Vec<&'static str>,
    times: u64,
) -> Vec<(&'static str, Done)> {
    let mut done = Vec::new();
    for round in 0..times {
        let ask = LeaseAsk { at_least: round % 17, floor: 0 };
        for name in &names {
            let leased = patiently(|| async { store.lease(&tag(name), ask).await }).await;
            done.push((*name, Done::Leased(leased.unwrap())));
        }
    }
    done
}

/// Asserts that the changes of a row neither overlap nor leave a gap.
fn assert_exact(done: &[(&str, Done)], name: &str, first: u64, max_id: u64) {
    let of_row = done.iter().filter(|(of, _)| *of == name);
    let mut spans: Vec<_> = of_row
        .map(|(_, done)| match done {
            Done::Leased(leased) => span(leased),
            Done::Raised { from, to } => (*from, *to),
        })
        .collect();
    spans.sort_unstable();
    let mut position = first;
    for (start, end) in spans {
        assert_eq!(start, position, "{name}: IDs were leased twice or lost");
        position = end;
    }
    assert_eq!(position, max_id, "{name}");
}

fn lease_from_many_hosts(bench: &TestStore, times: u64) {
    let tasks: Vec<_> = (0..HOSTS)
        .map(|_| bench.open())
        .flat_map(|store| (0..AT_ONCE).map(move |_| Arc::clone(&store)))
        .map(|store| spawn(lease_often(store, vec!["orders"], times)))
        .collect();
    let done: Vec<_> = tasks.into_iter().flat_map(join).collect();
    assert_eq!(done.len() as u64, times * (HOSTS * AT_ONCE) as u64);
    assert_exact(&done, "orders", 1, bench.max_id("orders"));
}

fn many_hosts_on_one_row_get_every_id_once(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    lease_from_many_hosts(bench, 100);
}

fn no_id_is_leased_twice_while_rows_are_created_raised_and_changed(bench: &TestStore) {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    const TIMES: u64 = 20;
    bench.create_table();
    for name in NAMES {
        bench.insert(name, "1", "10");
    }
    let mut tasks = Vec::new();
    for host in 0..HOSTS {
        let store = bench.open();
        // In opposite orders, which invites deadlocks.
        let mut names = NAMES.to_vec();
        if host % 2 == 0 {
            names.reverse();
        }
        tasks.push(spawn(lease_often(Arc::clone(&store), names.clone(), TIMES)));
        tasks.push(spawn(async move {
            let mut done = Vec::new();
            for round in 0..TIMES {
                for name in &names {
                    let row = tag(name);
                    let to = store.show(&row).await.unwrap().max_id.get().unwrap();
                    let to = to.unsigned_abs() + 5;
                    let raised = patiently(|| store.raise(&row, to)).await;
                    if let Some(from) = raised.unwrap() {
                        done.push((*name, Done::Raised { from: from.unsigned_abs(), to }));
                    }
                    patiently(|| store.set_step(&row, 1 + round % 20)).await.unwrap();
                    let again = patiently(|| store.create(&row, NewTag::new(1, 1, ""))).await;
                    assert_eq!(again, Err(StoreError::Exists));
                    let missing = tag(&format!("missing {name}"));
                    let missing = patiently(|| store.raise(&missing, to)).await;
                    assert_eq!(missing, Err(StoreError::NoSuchTag));
                    let new = tag(&format!("{host} {round} {name}"));
                    patiently(|| store.create(&new, NewTag::new(1, 1, ""))).await.unwrap();
                }
            }
            done
        }));
    }
    let done: Vec<_> = tasks.into_iter().flat_map(join).collect();
    assert!(done.iter().any(|(_, done)| matches!(done, Done::Raised { .. })));
    for name in NAMES {
        assert_exact(&done, name, 1, bench.max_id(name));
    }
    let made = HOSTS * usize::try_from(TIMES).unwrap() * NAMES.len();
    assert_eq!(run(bench.open().page("", 1000)).unwrap().len(), made + NAMES.len());
}

fn exactly_one_of_several_hosts_that_create_a_tag_at_once_succeeds(bench: &TestStore) {
    const TAGS: usize = 20;
    bench.create_table();
    let tasks: Vec<_> = (0..HOSTS)
        .map(|_| {
            let store = bench.open();
            spawn(async move {
                let mut made = 0;
                for number in 0..TAGS {
                    // What leafd does at the first use of a tag.
                    let name = tag(&format!("new {number}"));
                    let ask = LeaseAsk { at_least: 0, floor: 0 };
                    let leased = patiently(|| store.lease(&name, ask)).await;
                    if leased == Err(StoreError::NoSuchTag) {
                        match patiently(|| store.create(&name, NewTag::new(1, 10, ""))).await {
                            Ok(_) => made += 1,
                            outcome => assert_eq!(outcome, Err(StoreError::Exists)),
                        }
                        patiently(|| store.lease(&name, ask)).await.unwrap();
                    }
                }
                made
            })
        })
        .collect();
    let made: usize = tasks.into_iter().map(join).sum();
    let rows = run(bench.open().page("", 1000)).unwrap();
    assert_eq!(rows.len(), TAGS);
    // Of several databases, a host can find a tag in the first and complete it in the second before the host
    // that created it gets there. Both hosts then get `Exists`.
    if bench.is_several() {
        assert!((1..=TAGS).contains(&made), "{made}");
    } else {
        assert_eq!(made, TAGS);
    }
    // A host that comes between the two rows of a tag leases from the second database.
    if bench.is_several() {
        return;
    }
    let end = i64::try_from(HOSTS).unwrap() * 10 + 1;
    assert!(rows.iter().all(|row| row.max_id.get() == Some(end)), "{rows:?}");
}

#[test]
fn mariadbs_default_isolation_binlog_and_autocommit_do_not_matter() {
    let extra =
        Extra { arguments: &["--log-bin=binlog", "--binlog-format=STATEMENT"], ..Extra::default() };
    let bench = TestStore::on(Database::start_with(Kind::MariaDb, extra));
    assert_eq!(bench.query("SELECT @@log_bin, @@binlog_format")[0][0].as_deref(), Some("1"));
    for isolation in ["SERIALIZABLE", "READ UNCOMMITTED", "READ COMMITTED"] {
        bench.sql("SET GLOBAL autocommit = 1, GLOBAL tx_isolation = 'REPEATABLE-READ'");
        bench.create_table_of("varchar(128)", "bigint", "int");
        bench.insert("orders", "1", "10");
        bench.sql(&format!("SET GLOBAL TRANSACTION ISOLATION LEVEL {isolation}"));
        bench.sql("SET GLOBAL autocommit = 0");
        lease_from_many_hosts(&bench, 10);
    }
}

#[test]
fn postgresqls_default_isolation_and_commit_do_not_matter() {
    let bench = TestStore::postgres();
    for isolation in ["serializable", "repeatable read"] {
        bench.create_table_of("varchar(128)", "bigint", "int");
        bench.insert("orders", "1", "10");
        let (name, set) = (bench.database().name(), "SET default_transaction_isolation");
        bench.sql(&format!("ALTER DATABASE {name} {set} = '{isolation}'"));
        bench.sql(&format!("ALTER DATABASE {name} SET synchronous_commit = off"));
        lease_from_many_hosts(&bench, 10);
    }
}

#[test]
fn a_server_without_strict_mode_does_not_truncate_values() {
    let bench = TestStore::on(Database::start(Kind::MariaDb));
    bench.sql("SET GLOBAL sql_mode = ''");
    bench.create_table_of("varchar(10)", "smallint", "smallint");
    bench.insert("orders", "32760", "10");
    let store = bench.open();
    let ask = LeaseAsk { at_least: 0, floor: 0 };
    let error = run(store.lease(&tag("orders"), ask)).unwrap_err();
    assert!(matches!(error, StoreError::BadRow(_)), "{error:?}");
    let error = run(store.create(&tag("longer than it"), NewTag::new(1, 10, ""))).unwrap_err();
    assert!(matches!(error, StoreError::BadRow(_)), "{error:?}");
    assert_eq!(run(store.page("", 1000)).unwrap().len(), 1);
    assert_eq!(bench.max_id("orders"), 32760);
}
