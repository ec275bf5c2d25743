//! A table in a database as a registry. A fleet is a name in it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{RegistryAccess, RegistryKind, RegistryRecord, RegistryServers};
use crate::database::{Database, Kind, Rows, Session};

/// The two tables. The rows of the first one order the changes of the second one.
const TABLES: [&str; 2] = ["leafd_worker_fleet", "leafd_worker"];

/// Pause before a transaction is tried again that met a deadlock with an instance's.
const AGAIN: Duration = Duration::from_millis(10);

/// MariaDB, which also represents MySQL.
pub static MARIADB: DatabaseKind = DatabaseKind::new(Kind::MariaDb);

/// PostgreSQL.
pub static POSTGRES: DatabaseKind = DatabaseKind::new(Kind::Postgres);

/// A kind of database.
#[derive(Debug)]
pub struct DatabaseKind {
    kind: Kind,
    shared: OnceLock<Arc<DatabaseServer>>,
}

/// A server with the tables of worker IDs.
#[derive(Debug)]
pub struct DatabaseServer {
    database: Database,
    fleets: AtomicU32,
}

impl DatabaseKind {
    const fn new(kind: Kind) -> Self {
        Self { kind, shared: OnceLock::new() }
    }

    /// The kind of the server.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

impl RegistryKind for DatabaseKind {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::MariaDb => "mariadb",
            Kind::Postgres => "postgres",
        }
    }

    fn called(&self) -> &'static str {
        "the registry's database"
    }

    fn observes_ages(&self) -> bool {
        true
    }

    fn start(&self, _size: usize) -> Arc<dyn RegistryServers> {
        Arc::new(DatabaseServer::new(Database::start(self.kind)))
    }

    fn shared(&self) -> Arc<dyn RegistryServers> {
        let database = || Arc::new(DatabaseServer::new(Database::shared(self.kind).fresh()));
        Arc::<DatabaseServer>::clone(self.shared.get_or_init(database))
    }
}

impl DatabaseServer {
    /// Makes the tables in an empty database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        database.create_worker_tables();
        Self::with_tables(database)
    }

    /// A database that has the tables, as a copy of another one does.
    #[must_use]
    pub const fn with_tables(database: Database) -> Self {
        Self { database, fleets: AtomicU32::new(0) }
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// What tells one state of the tables from another one.
    #[must_use]
    pub fn summary(&self) -> Rows {
        self.database.query("SELECT path, version, created FROM leafd_worker ORDER BY path")
    }

    fn now(&self) -> &'static str {
        match self.database.kind() {
            Kind::MariaDb => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
            Kind::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
        }
    }

    /// Executes statements as one transaction, again after a deadlock.
    fn transact(&self, statements: &[String]) {
        let mut session = self.database.session();
        let attempt = |session: &mut Session| {
            session.execute("BEGIN");
            statements.iter().try_for_each(|statement| session.try_query(statement).map(drop))
        };
        while let Err(error) = attempt(&mut session) {
            let text = error.to_string();
            assert!(text.contains("eadlock"), "{text}");
            session.execute("ROLLBACK");
            std::thread::sleep(AGAIN);
        }
        session.execute("COMMIT");
    }
}

/// A text in a statement. Neither fleets nor records have a quote or a backslash.
fn quote(text: &str) -> String {
    assert!(!text.contains(['\'', '\\']), "{text:?}");
    format!("'{text}'")
}

/// The first cell of the first row.
fn cell(rows: Rows) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}

impl RegistryServers for DatabaseServer {
    fn new_fleet(&self) -> String {
        format!("fleet {}", self.fleets.fetch_add(1, Ordering::Relaxed))
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.database.port()]
    }

    fn access(&self, fleet: &str, ports: &[u16]) -> RegistryAccess {
        // MariaDB waits for a lock for a second at least, and an instance that watches another one's
        // record for 20 s begins again after each call that fails.
        RegistryAccess::new("database", "DATABASE", "2s")
            .with("URL", &self.database.url_at(ports[0]))
            .with("NAME", fleet)
    }

    fn record(&self, fleet: &str, path: &str) -> Option<RegistryRecord> {
        let rows = self.database.query(&format!(
            "SELECT record, version, modified_ms, session FROM leafd_worker \
             WHERE fleet = {} AND path = {}",
            quote(fleet),
            quote(path)
        ));
        let cells: Vec<String> = rows.into_iter().next()?.into_iter().flatten().collect();
        let [data, version, modified_ms, session] = cells.try_into().expect("four cells");
        Some(RegistryRecord {
            data,
            version: version.parse().expect("a version"),
            modified_ms: Some(modified_ms.parse().expect("a time")),
            session: session.parse().expect("a session"),
        })
    }

    fn names(&self, fleet: &str, folder: &str) -> Vec<String> {
        let rows = self.database.query(&format!(
            "SELECT path FROM leafd_worker WHERE fleet = {} AND path LIKE '{folder}/%'",
            quote(fleet)
        ));
        let below = format!("{folder}/");
        let paths = rows.into_iter().flatten().flatten();
        let names = paths.filter_map(|path| path.strip_prefix(&below).map(str::to_owned));
        let mut names: Vec<_> = names.filter(|name| !name.contains('/')).collect();
        names.sort_unstable();
        names
    }

    fn now_ms(&self, _fleet: &str) -> u64 {
        let now = cell(self.database.query(&format!("SELECT {}", self.now())));
        now.and_then(|now| now.split('.').next()?.parse().ok()).expect("a time")
    }

    fn pass_over(&self, fleet: &str, numbers: u64) {
        let fleet = quote(fleet);
        let insert = format!(
            "INSERT INTO leafd_worker_fleet (name) SELECT {fleet} WHERE NOT EXISTS (SELECT 1 FROM leafd_worker_fleet WHERE name = {fleet})"
        );
        let update = format!(
            "UPDATE leafd_worker_fleet SET next_worker = next_worker + {numbers} WHERE name = {fleet}"
        );
        self.transact(&[insert, update]);
    }

    fn wipe(&self) {
        self.transact(&TABLES.map(|table| format!("DELETE FROM {table}")));
    }

    fn back_up(&self) -> String {
        let columns = "fleet, path, record, version, created, modified_ms, session, beat, lasts_ms";
        let mut session = self.database.session();
        // One snapshot, since the instances go on writing.
        session.execute(match self.database.kind() {
            Kind::MariaDb => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            Kind::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        });
        let columns = ["name, changes, next_worker", columns];
        let mut statements = String::new();
        for (table, columns) in TABLES.iter().zip(columns) {
            for row in session.query(&format!("SELECT {columns} FROM {table}")) {
                let cells: Vec<_> = row.iter().flatten().map(|cell| quote(cell)).collect();
                let cells = cells.join(", ");
                statements += &format!("INSERT INTO {table} ({columns}) VALUES ({cells})\n");
            }
        }
        statements
    }

    fn restore(&self, backup: &str) {
        let mut statements = TABLES.map(|table| format!("DELETE FROM {table}")).to_vec();
        statements.extend(backup.lines().map(str::to_owned));
        self.transact(&statements);
    }

    fn leader(&self) -> usize {
        0
    }

    fn kill(&self, _server: usize) {
        self.database.kill();
    }

    fn start_again(&self, _server: usize) {
        self.database.start_again();
    }

    fn freeze(&self, _server: usize) {
        self.database.freeze();
    }

    fn thaw(&self, _server: usize) {
        self.database.thaw();
    }

    fn kill_all(&self) {
        self.database.kill();
    }

    fn start_all(&self) {
        self.database.start_again();
    }

    fn freeze_all(&self) {
        self.database.freeze();
    }

    fn thaw_all(&self) {
        self.database.thaw();
    }

    /// It answers as soon as it was started.
    fn wait_serving(&self) {
        assert!(cell(self.database.query("SELECT 1")).is_some());
    }
}
