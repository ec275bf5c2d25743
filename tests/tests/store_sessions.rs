//! What a store holds on the server: locks only during a call, sessions only while they are useful, and
//! nothing after a cancelled call.

use std::sync::Arc;
use std::time::Duration;

use leafd::store::{NewTag, Store, StoreError, StoreLimits};
use leafd_tests::database::Session;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::stores::{ASK, LIMITS, TestStore, run, span, spawn, tag, wait_until};
use leafd_tests::{
    PATIENCE, StoreServer, on_every_server, on_every_sql_server, on_every_sql_store, on_every_store,
};

on_every_store! {
    calls_cancelled_at_any_moment_repeat_no_id_and_leave_no_session,
    a_closed_handle_has_no_connection_and_reports_that_it_is_down,
}

on_every_sql_store! {
    a_locked_row_is_busy_until_it_is_free,
    a_call_that_changed_nothing_leaves_no_lock,
    a_cancelled_call_leaves_nothing_behind,
}

on_every_server! {
    a_connection_that_the_server_ended_while_it_was_idle_causes_no_error,
}

on_every_sql_server! {
    a_locked_row_delays_no_other_row,
    a_locked_table_is_busy_for_every_call_and_sessions_do_not_pile_up,
    no_more_connections_than_allowed_are_opened_and_idle_ones_are_closed,
}

/// Long enough for the database to report a lock on a slow machine.
const SHORT: StoreLimits = StoreLimits { timeout: Duration::from_secs(8), connections: 2 };

/// So long that no timeout of the server cleans up in time.
const LONG: StoreLimits = StoreLimits { timeout: PATIENCE, connections: 2 };

/// Asserts that the call failed with the database's own error for a lock, and not by leafd's timeout.
fn assert_busy<T: std::fmt::Debug>(bench: &TestStore, outcome: Result<T, StoreError>) {
    let words: &[&str] = bench.by_kind(
        &["database is locked"],
        &["Lock wait timeout exceeded"],
        // The second is for calls that queue behind another one that waits for the row.
        &["lock timeout", "statement timeout"],
    );
    let Err(StoreError::Busy(why)) = &outcome else { panic!("{outcome:?}") };
    assert!(words.iter().any(|words| why.contains(words)), "{why}");
}

/// An operator's session that waits for a lock for a second at most.
fn impatient(bench: &TestStore) -> Session {
    let mut session = bench.session();
    session.execute(bench.by_kind(
        "PRAGMA busy_timeout = 1000",
        "SET SESSION innodb_lock_wait_timeout = 1",
        "SET lock_timeout = '1s'",
    ));
    session
}

/// An operator's session that locks a row in a transaction.
fn hold(bench: &TestStore, name: &str) -> Session {
    let mut session = bench.session();
    session.execute(bench.by_kind("BEGIN IMMEDIATE", "BEGIN", "BEGIN"));
    let lock = bench.by_kind("", " FOR UPDATE", " FOR UPDATE");
    session.query(&format!("SELECT * FROM leaf_alloc WHERE biz_tag = '{name}'{lock}"));
    session
}

/// Cancels a call that takes longer than `limit`.
async fn cancel_after<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, call).await.ok()
}

fn a_locked_row_is_busy_until_it_is_free(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open_with(SHORT);
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (1, 11));
    let mut holder = hold(bench, "orders");
    let lease = || {
        let (store, orders) = (Arc::clone(&store), tag("orders"));
        spawn(async move { store.lease(&orders, ASK).await })
    };
    let mut calls = vec![lease()];
    // The embedded store has only one connection, and waiting for that has another error.
    if bench.kind().is_some() {
        wait_until("the lease waits", || bench.waiting() == 1);
        // The second lease gets the database's error too.
        calls.push(lease());
    }
    // Readers do not wait.
    assert_eq!(run(bench.open().page("", 1000)).unwrap().len(), 1);
    for call in calls {
        assert_busy(bench, run(call).unwrap());
    }
    assert_eq!(run(store.show(&tag("orders"))).unwrap().max_id.get(), Some(11));
    holder.execute("ROLLBACK");
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (11, 21));
}

fn a_locked_row_delays_no_other_row(bench: &TestStore) {
    // Old tables have columns in other character sets than leafd's connections.
    let columns: &[&str] = bench.by_kind(
        &[],
        &[
            "varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
            "varchar(128) CHARACTER SET utf8mb3",
            "varchar(128) CHARACTER SET latin1",
            "varbinary(512)",
        ],
        &["varchar(128) COLLATE \"C\"", "varchar(128)", "text"],
    );
    let store = bench.open();
    for column in columns {
        bench.create_table_of(column, "bigint", "int");
        for name in ["customers", "orders", "users"] {
            bench.insert(name, "1", "10");
        }
        let mut holder = hold(bench, "orders");
        let waiting = {
            let store = bench.open();
            spawn(async move { store.lease(&tag("orders"), ASK).await })
        };
        wait_until("the lease waits", || bench.waiting() == 1);
        for name in ["customers", "users"] {
            assert_eq!(span(&run(store.lease(&tag(name), ASK)).unwrap()), (1, 11), "{column}");
            run(store.set_step(&tag(name), 5)).unwrap();
            run(store.raise(&tag(name), 700)).unwrap();
        }
        run(store.create(&tag("new"), NewTag::new(1, 10, ""))).unwrap();
        run(store.show(&tag("orders"))).unwrap();
        holder.execute("UPDATE leaf_alloc SET max_id = 100 WHERE biz_tag = 'orders'");
        holder.execute("COMMIT");
        // It reads the value after the other transaction, not the one from when it began.
        assert_eq!(span(&run(waiting).unwrap().unwrap()), (100, 110), "{column}");
    }
}

fn a_locked_table_is_busy_for_every_call_and_sessions_do_not_pile_up(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open_with(StoreLimits { timeout: Duration::from_secs(2), connections: 4 });
    let mut holder = bench.session();
    if bench.kind() == Some(StoreServerKind::POSTGRES) {
        holder.execute("BEGIN");
    }
    holder.execute(bench.by_kind(
        "",
        "LOCK TABLES leaf_alloc WRITE",
        "LOCK TABLE leaf_alloc IN ACCESS EXCLUSIVE MODE",
    ));
    let (orders, new) = (&tag("orders"), &tag("new"));
    let (leased, list, row, made, probed) = run(async {
        tokio::join!(
            store.lease(orders, ASK),
            store.page("", 1000),
            store.show(orders),
            store.create(new, NewTag::new(1, 10, "")),
            store.probe(),
        )
    });
    assert_busy(bench, leased);
    assert_busy(bench, list);
    assert_busy(bench, row);
    assert_busy(bench, made);
    assert_busy(bench, probed);
    wait_until("their sessions have ended", || bench.connections() == 0);
    holder.execute(bench.by_kind("", "UNLOCK TABLES", "ROLLBACK"));
    wait_until("the store works again", || run(store.probe()).is_ok());
    assert_eq!(span(&run(bench.open().lease(orders, ASK)).unwrap()), (1, 11));
}

fn a_call_that_changed_nothing_leaves_no_lock(bench: &TestStore) {
    bench.create_table();
    bench.insert("bad", "-1", "10");
    bench.insert("orders", "100", "10");
    let (store, missing) = (bench.open_with(LONG), tag("missing"));
    let mut other = impatient(bench);
    let mut check = |call: &str| {
        for statement in [
            // Keys before, at and after that of the missing row.
            "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('miss', 1), ('missing', 1), ('mix', 1)",
            "UPDATE leaf_alloc SET step = step + 1",
            "DELETE FROM leaf_alloc WHERE biz_tag LIKE 'mi%'",
        ] {
            let outcome = other.try_query(statement);
            assert!(outcome.is_ok(), "after {call}: {outcome:?}");
        }
    };
    assert_eq!(run(store.lease(&missing, ASK)), Err(StoreError::NoSuchTag));
    check("a lease of no row");
    assert!(matches!(run(store.lease(&tag("bad"), ASK)), Err(StoreError::BadRow(_))));
    check("a lease of a bad row");
    assert_eq!(run(store.raise(&missing, 5)), Err(StoreError::NoSuchTag));
    check("a raise of no row");
    assert_eq!(run(store.raise(&tag("orders"), 5)), Ok(None));
    check("a raise of a row that is not behind");
    assert_eq!(run(store.set_step(&missing, 5)), Err(StoreError::NoSuchTag));
    check("a step of no row");
    assert_eq!(run(store.create(&tag("orders"), NewTag::new(1, 1, ""))), Err(StoreError::Exists));
    check("a tag that is there");
    assert!(run(store.show(&tag("orders"))).is_ok() && run(store.page("", 1000)).is_ok());
    check("a look");
    assert_eq!(run(store.probe()), Ok(()));
    check("a probe");
    // The locks were released without closing the connection. The probe's own takes a while to end.
    if bench.kind().is_some() {
        wait_until("one connection is left", || bench.connections() == 1);
    }
}

fn a_cancelled_call_leaves_nothing_behind(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open_with(StoreLimits { connections: 1, ..LONG });
    run(store.lease(&tag("orders"), ASK)).unwrap();
    let first = bench.kind().map(|_| bench.sessions());
    let mut holder = hold(bench, "orders");
    if bench.kind().is_some() {
        let lease = spawn({
            let store = Arc::clone(&store);
            async move { store.lease(&tag("orders"), ASK).await }
        });
        wait_until("the lease waits", || bench.waiting() == 1);
        lease.abort();
        assert!(run(lease).unwrap_err().is_cancelled());
    } else {
        let cancelled =
            run(cancel_after(Duration::from_millis(50), store.lease(&tag("orders"), ASK)));
        assert_eq!(cancelled, None);
    }
    holder.execute("ROLLBACK");
    drop(holder);
    // The cancelled lease does not keep the lock, and has leased nothing.
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (11, 21));
    if let Some(first) = first {
        wait_until("the first session has ended", || bench.connections() == 1);
        assert_ne!(bench.sessions(), first, "the session was reused");
        assert_eq!(bench.transactions(), 0);
    }
    impatient(bench).execute("UPDATE leaf_alloc SET step = 20 WHERE biz_tag = 'orders'");
}

fn calls_cancelled_at_any_moment_repeat_no_id_and_leave_no_session(bench: &TestStore) {
    const ROUNDS: u64 = 150;
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open_with(LONG);
    let (mut spans, mut cancelled) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        // From before the first message to after the last one.
        let limit = Duration::from_micros(round * 50);
        match run(cancel_after(limit, store.lease(&tag("orders"), ASK))) {
            Some(Ok(leased)) => spans.push(span(&leased)),
            None => cancelled += 1,
            // The server has not yet ended the call before.
            Some(Err(error)) => assert!(matches!(error, StoreError::Busy(_)), "{error:?}"),
        }
    }
    assert!(cancelled > 0, "no call was cancelled");
    spans.push(span(&run(store.lease(&tag("orders"), ASK)).unwrap()));
    assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0), "{spans:?}");
    assert_eq!(bench.max_id("orders"), spans.last().unwrap().1);
    if bench.kind().is_some() && !bench.is_redis() {
        wait_until("no transaction is open", || bench.transactions() == 0);
    }
    wait_until("only allowed connections are left", || bench.connections() <= LONG.connections);
    run(store.close());
    wait_until("no connection is left", || bench.connections() == 0);
    bench.update("orders", "1", "7");
}

fn a_closed_handle_has_no_connection_and_reports_that_it_is_down(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let (store, other) = (bench.open(), bench.open());
    for store in [&store, &other] {
        run(store.lease(&tag("orders"), ASK)).unwrap();
    }
    let (both, one) = if bench.kind().is_none() { (1, 1) } else { (2, 1) };
    assert_eq!(bench.connections(), both);
    run(store.close());
    wait_until("its connections are gone", || bench.connections() == one);
    assert!(matches!(run(store.lease(&tag("orders"), ASK)), Err(StoreError::Down(_))));
    assert!(matches!(run(store.page("", 1000)), Err(StoreError::Down(_))));
    run(store.close());
    run(other.lease(&tag("orders"), ASK)).unwrap();
    // A handle that is dropped without `close` is closed too.
    drop(other);
    wait_until("the connections of the other handle are gone", || bench.connections() == 0);
}

fn no_more_connections_than_allowed_are_opened_and_idle_ones_are_closed(bench: &TestStore) {
    const MOST: usize = 3;
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open_with(StoreLimits { connections: MOST, ..LIMITS });
    assert_eq!(bench.connections(), 0, "before it is used");
    let holder = hold(bench, "orders");
    let leases: Vec<_> = (0..MOST * 4)
        .map(|_| {
            let store = Arc::clone(&store);
            spawn(async move { store.lease(&tag("orders"), ASK).await })
        })
        .collect();
    wait_until("as many as allowed wait for the row", || bench.waiting() == MOST);
    assert_eq!(bench.connections(), MOST);
    drop(holder);
    let mut most = 0;
    wait_until("the leases end", || {
        most = most.max(bench.connections());
        leases.iter().all(tokio::task::JoinHandle::is_finished)
    });
    assert!(most <= MOST, "{most}");
    for lease in leases {
        run(lease).unwrap().unwrap();
    }
    assert_eq!(bench.connections(), MOST, "kept for the next lease");
    wait_until("idle connections are closed", || bench.connections() == 0);
    run(store.lease(&tag("orders"), ASK)).unwrap();
}

fn a_connection_that_the_server_ended_while_it_was_idle_causes_no_error(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open();
    let orders = &tag("orders");
    for round in 0..2 {
        run(async { tokio::join!(store.lease(orders, ASK), store.show(orders)) }).0.unwrap();
        assert!(bench.connections() > 0);
        bench.sessions().iter().for_each(|session| bench.end_session(session));
        wait_until("the connections have ended", || bench.connections() == 0);
        // After this long, leafd checks whether an idle connection still works.
        std::thread::sleep(Duration::from_millis(1100));
        let start = round * 30 + 11;
        assert_eq!(span(&run(store.lease(orders, ASK)).unwrap()), (start, start + 10));
        assert!(run(store.page("", 1000)).is_ok() && run(store.raise(orders, start + 20)).is_ok());
    }
}

#[test]
fn after_a_restart_of_the_server_the_same_handle_works_again() {
    for kind in StoreServerKind::ALL {
        let bench = TestStore::on(StoreServer::start(kind));
        bench.create_table();
        bench.insert("orders", "1", "10");
        let store = bench.open();
        let mut start = 1;
        let stops: [fn(&StoreServer); 2] = [StoreServer::kill, StoreServer::stop];
        for stop in stops {
            start = leases(&bench, &store, start);
            stop(bench.server());
            let error = run(store.lease(&tag("orders"), ASK)).unwrap_err();
            assert!(matches!(error, StoreError::Down(_)), "{kind:?}: {error:?}");
            assert!(matches!(run(store.probe()), Err(StoreError::Down(_))));
            bench.server().start_again();
            // No connection to the old process is left.
            assert_eq!(run(store.probe()), Ok(()), "{kind:?}");
        }
        leases(&bench, &store, start);
    }
}

/// Leases the IDs from `start` on, and returns where they end. Redis skips some after a restart.
fn leases(bench: &TestStore, store: &Arc<dyn Store>, start: u64) -> u64 {
    let (first, end) = span(&run(store.lease(&tag("orders"), ASK)).unwrap());
    assert!(first == start || bench.is_redis() && first > start, "{first}, not {start}");
    assert_eq!(end, first + 10);
    end
}
