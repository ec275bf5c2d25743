//! `leafctl doctor` on real databases: what it finds in their settings, tables and rights.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leafd_tests::daemon::Home;
use leafd_tests::database::{Extra, Kind};
use leafd_tests::doctor::{Examined, examine, examine_with, wait_for};
use leafd_tests::{Background, Database, on_every_database};
use tempfile::TempDir;

on_every_database! {
    a_database_that_is_set_up_right_has_no_findings,
    a_server_that_does_not_sync_is_bad,
    missing_tables_of_leafds_own_are_warnings,
    a_database_without_leafs_table_is_bad,
    missing_rights_are_named,
    narrow_columns_are_found_before_they_are_full,
    a_table_that_loses_rows_or_doubles_tags_is_bad,
    a_server_that_refuses_writes_is_bad,
    a_database_that_hangs_or_is_gone_is_told_within_the_time_limit,
    a_store_that_only_doctor_cannot_reach_is_no_alarm,
    worker_0_on_a_shared_store_is_a_warning,
    a_step_too_small_for_the_rate_is_a_warning,
    nothing_in_the_database_changes,
}

/// What the servers of other tests do without, for speed.
fn durable(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::MariaDb => &["--innodb-flush-log-at-trx-commit=1"],
        Kind::Postgres => &["-c", "fsync=on"],
    }
}

fn by_kind<T>(kind: Kind, mariadb: T, postgres: T) -> T {
    match kind {
        Kind::MariaDb => mariadb,
        Kind::Postgres => postgres,
    }
}

/// Creates what `leafd schema` prints, and grants all rights.
fn set_up(database: &Database) {
    let dialect = by_kind(database.kind(), "mariadb", "postgres");
    let folder = tempfile::tempdir().unwrap();
    let (code, schema, errors) = Home::new(folder.path()).run("leafd", &["schema", dialect]);
    assert_eq!(code, Some(0), "{errors}");
    database.create_table_with(&schema);
    database.grant_deleting();
    database.sql("GRANT SELECT ON leafd_identity TO leaf");
}

fn home(database: &Database) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_database(database).with("WORKER_ID", "7");
    (folder, home)
}

/// A new database with everything that leafd needs.
fn fresh(kind: Kind) -> Database {
    let database = Database::shared(kind).fresh();
    set_up(&database);
    database
}

/// Examines a database while no leafd runs.
fn of(database: &Database) -> Examined {
    let (_folder, home) = home(database);
    examine(&home)
}

fn a_database_that_is_set_up_right_has_no_findings(kind: Kind) {
    let database =
        Database::start_with(kind, Extra { arguments: durable(kind), ..Extra::default() });
    set_up(&database);
    let (_folder, home) = home(&database);
    let _daemon = home.start();
    let examined = examine(&home);
    examined.is_healthy();
    for check in ["store", "store-rights", "store-tables", "store-columns", "store-durability"] {
        assert!(examined.has(check, "ok", ""), "{check}: {:#}", examined.report);
    }
    assert!(examined.has("store-replication", "ok", ""), "{:#}", examined.report);
}

fn a_server_that_does_not_sync_is_bad(kind: Kind) {
    let setting = by_kind(kind, "innodb_flush_log_at_trx_commit = 2", "fsync = off");
    of(&fresh(kind)).finds("store-durability", "bad", setting);
}

fn missing_tables_of_leafds_own_are_warnings(kind: Kind) {
    let database = fresh(kind);
    database.sql("DELETE FROM leafd_identity");
    of(&database).finds("store-tables", "warn", "leafd_identity has no row");
    database.sql("DROP TABLE leafd_identity");
    database.sql("DROP TABLE leafd_tombstone");
    let examined = of(&database);
    examined.finds("store-tables", "warn", "no table leafd_tombstone");
    examined.finds("store-tables", "warn", "no table leafd_identity");
}

fn a_database_without_leafs_table_is_bad(kind: Kind) {
    of(&Database::shared(kind).fresh()).finds("store", "bad", "no table leaf_alloc");
}

fn missing_rights_are_named(kind: Kind) {
    let database = fresh(kind);
    database.sql("REVOKE SELECT ON leafd_identity FROM leaf");
    database.sql("REVOKE DELETE ON leaf_alloc FROM leaf");
    database.revoke_writing();
    let examined = of(&database);
    examined.finds("store-rights", "bad", "UPDATE on leaf_alloc");
    examined.finds("store-rights", "note", "INSERT on leaf_alloc");
    examined.finds("store-rights", "note", "DELETE on leaf_alloc");
    // In MySQL, a table without any right on it is not to be seen.
    let tables = by_kind(kind, "store-tables", "store-rights");
    examined.finds(tables, "warn", "leafd_identity");
}

fn narrow_columns_are_found_before_they_are_full(kind: Kind) {
    let database = fresh(kind);
    database.sql(by_kind(
        kind,
        "ALTER TABLE leaf_alloc MODIFY max_id int unsigned NOT NULL DEFAULT 1, \
         MODIFY biz_tag varchar(64) NOT NULL DEFAULT ''",
        "ALTER TABLE leaf_alloc ALTER max_id TYPE integer, ALTER biz_tag TYPE varchar(64)",
    ));
    database.insert_tag("orders", 1000, 10);
    let examined = of(&database);
    examined.finds("store-columns", "warn", "highest tag is at 1000");
    examined.finds("store-columns", "note", "biz_tag holds 64 characters");
    let nearly = by_kind(kind, "3600000000", "1900000000");
    database.sql(&format!("UPDATE leaf_alloc SET max_id = {nearly}"));
    of(&database).finds("store-columns", "bad", "nearly full");
}

fn a_table_that_loses_rows_or_doubles_tags_is_bad(kind: Kind) {
    let database = fresh(kind);
    database.sql(by_kind(
        kind,
        "ALTER TABLE leaf_alloc DROP PRIMARY KEY, ENGINE=MyISAM",
        "ALTER TABLE leaf_alloc DROP CONSTRAINT leaf_alloc_pkey",
    ));
    if kind == Kind::Postgres {
        database.sql("ALTER TABLE leaf_alloc SET UNLOGGED");
    }
    let examined = of(&database);
    examined.finds("store-columns", "bad", "biz_tag is no key");
    examined.finds("store-columns", "bad", by_kind(kind, "ENGINE=MyISAM", "UNLOGGED"));
}

fn a_server_that_refuses_writes_is_bad(kind: Kind) {
    let database = Database::start(kind);
    set_up(&database);
    database.sql(by_kind(
        kind,
        "SET GLOBAL read_only = ON",
        "ALTER DATABASE leaf SET default_transaction_read_only = on",
    ));
    let setting = by_kind(kind, "read_only = ON", "default_transaction_read_only = on");
    of(&database).finds("store", "bad", setting);
}

fn a_database_that_hangs_or_is_gone_is_told_within_the_time_limit(kind: Kind) {
    let database = Database::start(kind);
    set_up(&database);
    let (_folder, home) = home(&database);
    database.freeze();
    let examined = examine_with(&home, &["--timeout", "500ms"]);
    examined.finds("store", "bad", "no answer within 500ms");
    database.kill();
    let examined = examine(&home);
    examined.finds("store", "bad", "cannot read the store");
    assert!(!examined.report.to_string().contains("secret"), "{:#}", examined.report);
    // The daemon says so, too.
    let _daemon = home.start();
    wait_for(&home, "store", "bad", "leafd cannot lease from the store");
}

fn a_store_that_only_doctor_cannot_reach_is_no_alarm(kind: Kind) {
    let database = fresh(kind);
    let (_folder, home) = home(&database);
    let _daemon = home.start();
    let url = database.url().replace(":secret@", ":wrong@");
    let stranger = home.clone().with_database_at(&database, &url);
    let examined = wait_for(&stranger, "store", "unknown", "doctor does not");
    assert!(!examined.looked_at("store-rights"), "{:#}", examined.report);
}

fn worker_0_on_a_shared_store_is_a_warning(kind: Kind) {
    let database = fresh(kind);
    let (_folder, home) = home(&database);
    let home = home.with("WORKER_ID", "0");
    let _daemon = home.start();
    examine(&home).finds("worker-id", "warn", "Number the hosts");
}

fn a_step_too_small_for_the_rate_is_a_warning(kind: Kind) {
    let database = fresh(kind);
    database.insert_tag("orders", 1, 1000);
    let (_folder, home) = home(&database);
    let daemon = home.start();
    let mut client = daemon.client();
    let busy = Background::start(move |stop| {
        while !stop.is_set() {
            // A busy machine's store may be slower than the requests.
            let _ = client.next_many("orders", 200);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    wait_for(&home, "steps", "warn", "leafctl tag set-step orders ");
    busy.finish();
}

fn nothing_in_the_database_changes(kind: Kind) {
    let database = fresh(kind);
    database.insert_tag("orders", 4711, 10);
    let tables = ["leaf_alloc", "leafd_tombstone", "leafd_identity"];
    let rows = || tables.map(|table| database.query(&format!("SELECT * FROM {table}")));
    let before = rows();
    of(&database).finds("store-tables", "ok", "");
    assert_eq!(rows(), before);
}

/// A program that a test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mariadb_whose_replica_nobody_waits_for_is_a_warning() {
    let log = ["--log-bin=bin", "--server-id=1", "--innodb-flush-log-at-trx-commit=1"];
    let primary =
        Database::start_with(Kind::MariaDb, Extra { arguments: &log, ..Extra::default() });
    set_up(&primary);
    let (_folder, home) = home(&primary);
    examine(&home).finds("store-durability", "warn", "sync_binlog = 0");
    examine(&home).finds("store-replication", "ok", "");
    primary.sql("CREATE USER copy IDENTIFIED BY 'copy'");
    primary.sql("GRANT REPLICATION SLAVE ON *.* TO copy");
    let replica = Extra { arguments: &["--server-id=2"], ..Extra::default() };
    let replica = Database::start_with(Kind::MariaDb, replica);
    let mut session = replica.session();
    session.execute(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', \
         MASTER_PASSWORD = 'copy'",
        primary.port()
    ));
    session.execute("START SLAVE");
    wait_for(&home, "store-replication", "warn", "no commit waits for a replica (1)");
}

#[test]
fn a_postgresql_whose_standby_nobody_waits_for_is_a_warning() {
    let server = Database::start(Kind::Postgres);
    set_up(&server);
    let (folder, home) = home(&server);
    server.sql("COPY (SELECT 'local replication all trust') TO PROGRAM 'cat >> pg_hba.conf'");
    server.sql("SELECT pg_reload_conf()");
    // It receives what a standby receives.
    let programs = std::fs::read_dir("/usr/lib/postgresql").unwrap().flatten();
    let receive = programs.map(|version| version.path().join("bin/pg_receivewal")).max().unwrap();
    let mut standby = Command::new(receive);
    standby.arg("-D").arg(folder.path()).arg("-h").arg(server.folder());
    standby.args(["-p", &server.port().to_string(), "-U", "postgres"]);
    let _standby = Killed(standby.stderr(Stdio::null()).spawn().unwrap());
    wait_for(&home, "store-replication", "warn", "no commit waits for a replica (1)");
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (a)'");
    server.sql("SELECT pg_reload_conf()");
    wait_for(&home, "store-replication", "ok", "commits wait");
}
