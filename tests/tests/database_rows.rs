//! The database works, but a tag gets no IDs because of a lock, an absurd value, a missing right or a
//! missing table. Refusals name the cause, other tags go on, and leafd recovers by itself once the
//! cause is removed.

use std::time::{Duration, Instant};

use leaf_client::wire::ErrorCode;
use leafd::store::schema;
use leafd_tests::caller::{Caller, in_bounds, store_error, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::{Database, UniqueIds, on_every_database};

/// A deadline that memory always meets.
const SOON: Duration = Duration::from_secs(5);

/// The deadline of requests that are expected to be refused.
const SHORT: Duration = Duration::from_millis(700);

/// The name of a fault, and the function that begins it.
type Fault<T> = (&'static str, fn(&T));

on_every_database! {
    a_locked_row_stops_only_its_own_tag_with_one_lease_in_flight_at_a_time,
    a_row_with_an_absurd_value_is_reported_and_works_again_once_it_is_repaired,
    revoked_rights_are_reported_in_the_databases_words_and_leases_resume_once_they_are_granted,
    a_dropped_table_stops_only_leases_and_a_recreated_one_repeats_no_id,
    a_changed_password_does_not_affect_open_connections_and_is_never_shown,
}

fn a_locked_row_stops_only_its_own_tag_with_one_lease_in_flight_at_a_time(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::with_tag(kind, "orders", 1000);
    database.insert_tag("users", 1, 10);
    let home = Home::new(folder.path()).with_database(&database).with("STORE_TIMEOUT", "3s");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let (orders, users) =
        (Caller::of(&daemon, "orders", &seen), Caller::of(&daemon, "users", &seen));
    let left = orders.fills_memory();
    let mut holder = database.session();
    holder.execute("BEGIN");
    holder.query("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders' FOR UPDATE");
    assert_eq!(orders.drain(SOON), left);
    let waiters: Vec<_> = (0..4).map(|_| orders.waits()).collect();
    let mut watcher = database.session();
    let most = std::thread::scope(|scope| {
        // Longer than the store's timeout, so that leafd retries the lease.
        let refused = scope.spawn(|| orders.is_refused(Duration::from_secs(5)));
        let mut most = 0;
        while !refused.is_finished() {
            users.gets(100);
            most = most.max(watcher.waiting_for_locks());
        }
        let error = refused.join().unwrap();
        assert!(error.message.contains("lock timeout") || error.message.contains("Lock wait"));
        most
    });
    assert_eq!(most, 1, "leases of one tag in flight at the same time");
    for wait in [100, 300, 900, 1100].map(Duration::from_millis) {
        let error = orders.is_refused(wait);
        assert!(error.message.to_lowercase().contains("lock"), "{error}");
    }
    assert!(orders.status().unwrap().lease_error.to_lowercase().contains("lock"));
    assert_eq!(store_error(&home), "", "the store works for other tags");
    holder.execute("COMMIT");
    let ended = Instant::now();
    for waiter in waiters {
        waiter.is_served("a lock", ended);
    }
    let ended = daemon.stop();
    assert_eq!(ended.count("a lease failed"), 1, "{ended}");
}

fn a_row_with_an_absurd_value_is_reported_and_works_again_once_it_is_repaired(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::with_tag(kind, "orders", 1000);
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    for (absurd, named) in [
        ("max_id = -5", "-5"),
        ("step = 0", "step is 0"),
        ("step = -7", "-7"),
        ("max_id = 9223372036854775807 - 10", "9223372036854775797"),
    ] {
        let left = orders.fills_memory();
        let good = database.max_id("orders");
        database.sql(&format!("UPDATE leaf_alloc SET {absurd}"));
        assert_eq!(orders.drain(SOON), left, "{absurd}");
        let mut client = daemon.client();
        wait_until(&home, "leafd finds the absurd value", || {
            client.tag_show("orders").unwrap().lease_error.contains(named)
                || orders.ask(1, SHORT).is_err()
        });
        for wait in [100, 300, 700].map(Duration::from_millis) {
            let error = orders.ask(1, wait).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BadRow, "{absurd}: {error}");
            assert!(error.message.contains(named) && error.retry_after_ms > 0, "{error:?}");
        }
        assert_eq!(store_error(&home), "", "the store works for other tags");
        database.sql(&format!("UPDATE leaf_alloc SET max_id = {good}, step = 1000"));
        let mended = Instant::now();
        wait_until(&home, "the tag is served", || orders.ask(1, SHORT).is_ok());
        in_bounds(absurd, mended.elapsed());
        assert_eq!(orders.status().unwrap().lease_error, "");
    }
    let ended = daemon.stop();
    assert_eq!(ended.count("the row cannot be used"), 4, "once each\n{ended}");
}

fn revoked_rights_are_reported_in_the_databases_words_and_leases_resume_once_they_are_granted(
    kind: Kind,
) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::with_tag(kind, "orders", 1000);
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let faults: [Fault<Database>; 2] =
        [("no rights", Database::revoke), ("no right to write", Database::revoke_writing)];
    for (what, take_away) in faults {
        let left = orders.fills_memory();
        take_away(&database);
        assert_eq!(orders.drain(SOON), left, "{what}");
        let error = orders.is_refused(SHORT);
        assert!(error.message.contains("denied"), "{what}: {error}");
        wait_until(&home, "the status reports it", || store_error(&home).contains("denied"));
        assert!(orders.status().unwrap().lease_error.contains("denied"), "{what}");
        let waiter = orders.waits();
        database.grant();
        waiter.is_served(what, Instant::now());
        assert_eq!(store_error(&home), "");
    }
    let ended = daemon.stop();
    assert_eq!(ended.count("secret"), 0, "{ended}");
}

fn a_dropped_table_stops_only_leases_and_a_recreated_one_repeats_no_id(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::with_tag(kind, "orders", 1000);
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let left = orders.fills_memory();
    database.sql("DROP TABLE leaf_alloc");
    assert_eq!(orders.drain(SOON), left);
    let error = orders.is_refused(SHORT);
    assert!(error.message.contains("exist"), "{error}");
    let waiter = orders.waits();
    // The table appears together with its row: a tag without a row would be refused as unknown.
    let ddl = match kind {
        Kind::MariaDb => schema::MARIADB,
        Kind::Postgres => schema::POSTGRES,
    };
    database.create_table_with(&ddl.replace("leaf_alloc", "made"));
    database.sql("INSERT INTO made (biz_tag, max_id, step) VALUES ('orders', 1, 1000)");
    database.sql("ALTER TABLE made RENAME TO leaf_alloc");
    let made = Instant::now();
    waiter.is_served("a dropped table", made);
    for _ in 0..50 {
        orders.gets(100);
    }
    let ended = daemon.stop();
    assert_eq!(ended.count("went backwards"), 1, "{ended}");
}

fn a_changed_password_does_not_affect_open_connections_and_is_never_shown(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::start(kind);
    database.create_table();
    database.insert_tag("orders", 1, 1000);
    let set_password = |password: &str| {
        database.sql(&match kind {
            Kind::MariaDb => format!("SET PASSWORD FOR leaf = PASSWORD('{password}')"),
            Kind::Postgres => format!("ALTER ROLE leaf PASSWORD '{password}'"),
        });
    };
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    orders.gets(1);
    set_password("another secret");
    // Over the open connection, which is kept for some seconds.
    let leases = orders.status().unwrap().leases;
    orders.gets(1500);
    assert!(orders.status().unwrap().leases > leases);

    let left = orders.fills_memory();
    end_connections(kind, &database);
    assert_eq!(orders.drain(SOON), left);
    let refused = |text: &str| text.contains("password") && !text.contains("secret");
    wait_until(&home, "the login fails", || refused(&store_error(&home)));
    let error = orders.is_refused(SHORT);
    assert!(refused(&error.message), "{error}");
    orders.wait_status("the latest error", |status| refused(&status.lease_error));
    let waiter = orders.waits();
    set_password("secret");
    waiter.is_served("a password", Instant::now());
    assert_eq!(store_error(&home), "");
    let ended = daemon.stop();
    assert_eq!(ended.count("secret"), 0, "{ended}");
}

/// Ends all connections of the user `leaf`, as a server does with idle ones.
fn end_connections(kind: Kind, database: &Database) {
    match kind {
        Kind::MariaDb => database.sql("KILL HARD CONNECTION USER leaf"),
        Kind::Postgres => database
            .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'leaf'"),
    }
}
