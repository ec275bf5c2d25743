//! Probes of a store, and passwords, which must not show anywhere.

use std::sync::Arc;

use leafd::secret::Secret;
use leafd::store::{
    DatabaseGuard, IfMissing, NewTag, SharedStore, Store, StoreError, StoreSource, open,
};
use leafd_tests::database::{Database, Kind};
use leafd_tests::stores::{ASK, LIMITS, TestStore, embedded, open_at, run, span, tag};
use leafd_tests::{on_every_sql_server, on_every_store};

on_every_store! {
    a_probe_of_a_store_that_works_changes_nothing,
}

on_every_sql_server! {
    a_probe_fails_whenever_a_lease_would,
    the_password_appears_in_no_description_and_no_error,
    a_separate_password_overrides_that_of_the_address,
}

fn assert_down<T: std::fmt::Debug>(outcome: Result<T, StoreError>, words: &str) {
    let Err(StoreError::Down(why)) = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains(words) && !why.contains("secret"), "{why}");
    assert!(!why.contains(" at line "), "a line of the server's own source: {why}");
}

fn a_probe_of_a_store_that_works_changes_nothing(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    assert_eq!(run(store.probe()), Ok(()), "an empty table");
    for (name, max_id, step) in [("orders", "7", "10"), ("bad", "-1", "0")] {
        bench.insert(name, max_id, step);
    }
    if !bench.is_redis() {
        let table = bench.table();
        bench.sql(&format!("UPDATE {table} SET update_time = '2001-02-03 04:05:06'"));
    }
    let before = everything(bench);
    for _ in 0..3 {
        assert_eq!(run(store.probe()), Ok(()));
    }
    assert_eq!(everything(bench), before);
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (7, 17));
}

/// All rows, with their times, as they are now.
fn everything(bench: &TestStore) -> Vec<Vec<Option<String>>> {
    if bench.is_redis() {
        return ["orders", "bad"].map(|name| bench.row(name)).into();
    }
    let table = bench.table();
    bench.query(&format!(
        "SELECT biz_tag, max_id, step, description, update_time = '2001-02-03 04:05:06' \
         FROM {table} ORDER BY biz_tag"
    ))
}

/// Asserts that a probe and a lease fail alike, on a handle with open connections and on a new one.
fn assert_both_down(bench: &TestStore, store: &Arc<dyn Store>, words: &str) {
    for store in [Arc::clone(store), bench.open()] {
        assert_down(run(store.probe()), words);
        assert_down(run(store.lease(&tag("orders"), ASK)), words);
    }
}

fn assert_both_work(bench: &TestStore, store: &Arc<dyn Store>) {
    for store in [Arc::clone(store), bench.open()] {
        assert_eq!(run(store.probe()), Ok(()));
        run(store.lease(&tag("orders"), ASK)).unwrap();
    }
}

fn a_probe_fails_whenever_a_lease_would(bench: &TestStore) {
    let database = bench.database();
    let store = bench.open();
    assert_both_down(bench, &store, bench.by_kind("", "doesn't exist", "does not exist"));
    bench.create_table();
    bench.insert("orders", "1", "10");
    assert_both_work(bench, &store);

    database.revoke_writing();
    assert_both_down(bench, &store, "denied");
    database.revoke();
    assert_both_down(bench, &store, "denied");
    database.grant();
    assert_both_work(bench, &store);

    bench.sql("ALTER TABLE leaf_alloc RENAME TO elsewhere");
    assert_both_down(bench, &store, bench.by_kind("", "doesn't exist", "does not exist"));
    bench.sql("ALTER TABLE elsewhere RENAME TO leaf_alloc");
    assert_both_work(bench, &store);

    let wrong = database.url().replace("leaf:secret", "leaf:hunter2");
    let other = open_at(bench.speaks(), &wrong, true, LIMITS);
    assert_down(run(other.probe()), "leaf");

    run(store.close());
    let name = database.name();
    let (admin, force) = (database.kind(), bench.by_kind("", "", " WITH (FORCE)"));
    let elsewhere = Database::shared(admin).fresh();
    elsewhere.sql(&format!("DROP DATABASE {name}{force}"));
    let store = bench.open();
    assert_down(run(store.probe()), name);
    assert_down(run(store.lease(&tag("orders"), ASK)), name);
}

#[test]
fn a_mariadb_that_is_read_only_is_down_until_it_is_not() {
    let bench = TestStore::on(Database::start(Kind::MariaDb));
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open();
    assert_both_work(&bench, &store);
    for (on, off, words) in [
        ("read_only = 1", "read_only = 0", "read-only"),
        ("tx_read_only = 1", "tx_read_only = 0", "READ ONLY transaction"),
    ] {
        bench.sql(&format!("SET GLOBAL {on}"));
        // A session does not notice a change of the second variable.
        let store = bench.open();
        assert_both_down(&bench, &store, words);
        assert_eq!(run(store.page("", 1000)).unwrap().len(), 1);
        bench.sql(&format!("SET GLOBAL {off}"));
        assert_both_work(&bench, &bench.open());
    }
}

#[test]
fn a_postgresql_that_is_read_only_is_down_until_it_is_not() {
    let bench = TestStore::postgres();
    bench.create_table();
    bench.insert("orders", "1", "10");
    let alter = format!("ALTER DATABASE {} SET", bench.database().name());
    bench.sql(&format!("{alter} default_transaction_read_only = on"));
    let store = bench.open();
    assert_both_down(&bench, &store, "read-only transaction");
    assert_eq!(run(store.page("", 1000)).unwrap().len(), 1);
    let mut operator = bench.session();
    operator.execute("SET default_transaction_read_only = off");
    operator.execute(&format!("{alter} default_transaction_read_only = off"));
    assert_both_work(&bench, &bench.open());
}

#[test]
fn an_embedded_store_that_is_gone_or_broken_is_down() {
    let bench = TestStore::sqlite();
    bench.create_table();
    bench.insert("orders", "1", "10");
    let path = bench.path();
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    let open = || embedded(&path, LIMITS.timeout, IfMissing::Refuse);
    assert_down(run(open().probe()), "is missing");
    assert!(!path.exists());
    std::fs::write(&path, "no database, and longer than the header of one would be".repeat(9))
        .unwrap();
    assert_down(run(open().probe()), "not a database");
    std::fs::rename(&aside, &path).unwrap();
    let store = open();
    assert_eq!(run(store.probe()), Ok(()));
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (1, 11));
}

fn the_password_appears_in_no_description_and_no_error(bench: &TestStore) {
    bench.create_table();
    let database = bench.database();
    let nobody_listens = database.url_at(1);
    let no_database = database.url().replace(database.name(), "no_such_database");
    for url in [database.url(), nobody_listens, no_database] {
        let url = url.replace("leaf:secret", "leaf:hunter%322");
        let address = bench.speaks().address(&url, true).unwrap();
        let store = open_at(bench.speaks(), &url, true, LIMITS);
        let name = &tag("orders");
        let mut texts = vec![store.describe(), format!("{address:?} {address}")];
        for outcome in [
            run(store.lease(name, ASK)).map(drop),
            run(store.probe()),
            run(store.page("", 1000)).map(drop),
            run(store.create(name, NewTag::new(1, 1, ""))).map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, StoreError::Down(_)), "{error:?}");
            texts.push(format!("{error} {error:?}"));
        }
        for text in texts {
            assert!(text.contains("leaf@127.0.0.1"), "no user and address: {text}");
            assert!(!text.contains("hunter"), "{text}");
        }
    }
}

fn a_separate_password_overrides_that_of_the_address(bench: &TestStore) {
    bench.create_table();
    for (who, password, works) in [
        ("leaf", Some("secret"), true),
        ("leaf:hunter2", Some("secret"), true),
        ("leaf:secret", Some("hunter2"), false),
        ("leaf", None, false),
    ] {
        let url = bench.database().url().replace("leaf:secret", who);
        let address = bench.speaks().address(&url, true).unwrap();
        let source = SharedStore { address, password: password.map(Secret::new), limits: LIMITS };
        let outcome = run(async {
            let source = StoreSource::Shared(source);
            open(source, DatabaseGuard::unrecorded()).unwrap().probe().await
        });
        assert_eq!(outcome.is_ok(), works, "{who} {password:?}: {outcome:?}");
    }
}
