//! The three stores, for tests of what all of them promise. A test opens a store as the daemons of
//! several hosts do, and changes its rows as an operator does. It is written once and runs on every
//! store.

mod sessions;

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use leafd::environment::Environment;
use leafd::ids::BizTag;
use leafd::state::mark::Inodes;
use leafd::store::LeaseAsk;
use leafd::store::{
    DatabaseGuard, EmbeddedStore, IfMissing, Leased, ServerKind, SharedStore, Store, StoreLimits,
    StoreSource, open, schema,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::PATIENCE;
use crate::database::{Database, Kind, Rows, Session};

/// A daemon's first limits, but with a longer timeout for busy machines.
pub const LIMITS: StoreLimits = StoreLimits { timeout: PATIENCE, connections: 2 };

/// Asks for a lease of the row's step, wherever the row stands.
pub const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

/// Runs functions that take a [`TestStore`] as tests on every store.
#[macro_export]
macro_rules! on_every_store {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::stores::TestStore;

            #[test]
            fn sqlite() {
                super::$promise(&TestStore::sqlite());
            }

            #[test]
            fn mariadb() {
                super::$promise(&TestStore::mariadb());
            }

            #[test]
            fn postgres() {
                super::$promise(&TestStore::postgres());
            }
        }
    )+};
}

/// Runs functions that take a [`TestStore`] as tests on every shared database.
#[macro_export]
macro_rules! on_every_server {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::stores::TestStore;

            #[test]
            fn mariadb() {
                super::$promise(&TestStore::mariadb());
            }

            #[test]
            fn postgres() {
                super::$promise(&TestStore::postgres());
            }
        }
    )+};
}

/// Runs the stores' tasks, and the futures of the tests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
});

/// Runs a call of a store to its end.
pub fn run<F: Future>(call: F) -> F::Output {
    let bounded = async { tokio::time::timeout(PATIENCE, call).await };
    RUNTIME.block_on(bounded).expect("the call ends")
}

/// Waits for what [`spawn`] started, however long that takes: hundreds of commits on a busy disk take
/// minutes. Each call in it has a limit of its own.
pub fn join<T>(calls: tokio::task::JoinHandle<T>) -> T {
    RUNTIME.block_on(calls).expect("the calls do not panic")
}

/// Runs calls of a store in the background.
pub fn spawn<F>(calls: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    RUNTIME.spawn(calls)
}

/// Waits until `holds` returns true.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The tag of a name.
#[must_use]
pub fn tag(name: &str) -> BizTag {
    BizTag::new(name).unwrap_or_else(|error| panic!("{error}"))
}

/// The first ID of a lease, and the end of its range.
#[must_use]
pub const fn span(leased: &Leased) -> (u64, u64) {
    (leased.lease.range.start(), leased.lease.range.end())
}

/// Opens a shared store at a URL that contains the password.
#[must_use]
pub fn open_at(server: ServerKind, url: &str, verify: bool, limits: StoreLimits) -> Arc<dyn Store> {
    let address = server.address(url, verify).expect("an address");
    let _within = RUNTIME.enter();
    let source = StoreSource::Shared(SharedStore { address, password: None, limits });
    open(source, DatabaseGuard::unrecorded()).expect("a store")
}

/// Opens an embedded store in a file.
#[must_use]
pub fn embedded(path: &Path, timeout: Duration, if_missing: IfMissing) -> Arc<dyn Store> {
    let path = path.to_owned();
    let (inodes, environment) = (Inodes::Stable, Environment::system());
    let place = EmbeddedStore { path, timeout, if_missing, inodes, environment };
    open(StoreSource::Embedded(place), DatabaseGuard::unrecorded()).expect("a store")
}

/// One store, which is empty at first. Methods about a server panic if the store is embedded, and
/// those about a file if it is not.
#[derive(Debug)]
pub struct TestStore(Place);

#[derive(Debug)]
enum Place {
    File(TempDir),
    Server(Database),
}

impl TestStore {
    /// An embedded store in a folder of its own.
    #[must_use]
    pub fn sqlite() -> Self {
        let bench = Self(Place::File(tempfile::tempdir().expect("a folder")));
        File::create(bench.path()).expect("an empty database");
        bench
    }

    /// A new database on the MariaDB server that all tests share.
    #[must_use]
    pub fn mariadb() -> Self {
        Self::on(Database::shared(Kind::MariaDb).fresh())
    }

    /// A new database on the PostgreSQL server that all tests share.
    #[must_use]
    pub fn postgres() -> Self {
        Self::on(Database::shared(Kind::Postgres).fresh())
    }

    /// A store in a given database.
    #[must_use]
    pub const fn on(database: Database) -> Self {
        Self(Place::Server(database))
    }

    /// The kind of the server; none if the store is embedded.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        match &self.0 {
            Place::File(_) => None,
            Place::Server(database) => Some(database.kind()),
        }
    }

    /// The database of a shared store.
    #[must_use]
    pub fn database(&self) -> &Database {
        match &self.0 {
            Place::File(_) => panic!("there is no server"),
            Place::Server(database) => database,
        }
    }

    /// The server's protocol, for the store's address.
    #[must_use]
    pub fn speaks(&self) -> ServerKind {
        match self.database().kind() {
            Kind::MariaDb => ServerKind::MySql,
            Kind::Postgres => ServerKind::Postgres,
        }
    }

    /// The file of an embedded store.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.0 {
            Place::File(folder) => folder.path().join("leafd.db"),
            Place::Server(_) => panic!("there is no file"),
        }
    }

    /// One of three values, for what differs between the databases.
    pub fn by_kind<T>(&self, sqlite: T, mariadb: T, postgres: T) -> T {
        match self.kind() {
            None => sqlite,
            Some(Kind::MariaDb) => mariadb,
            Some(Kind::Postgres) => postgres,
        }
    }

    /// Opens another handle, as the daemon of another host does.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Store> {
        self.open_with(LIMITS)
    }

    /// Opens another handle with these limits.
    #[must_use]
    pub fn open_with(&self, limits: StoreLimits) -> Arc<dyn Store> {
        match &self.0 {
            Place::File(_) => {
                let _within = RUNTIME.enter();
                embedded(&self.path(), limits.timeout, IfMissing::Create)
            }
            Place::Server(database) => open_at(self.speaks(), &database.url(), true, limits),
        }
    }

    /// Opens a session with all rights, as an operator.
    #[must_use]
    pub fn session(&self) -> Session {
        match &self.0 {
            Place::File(_) => {
                Session::open(&format!("sqlite:{}", self.path().display())).expect("a session")
            }
            Place::Server(database) => database.session(),
        }
    }

    /// Executes a statement as an operator.
    pub fn sql(&self, statement: &str) {
        self.session().execute(statement);
    }

    /// Executes a statement as an operator, and returns its rows.
    #[must_use]
    pub fn query(&self, statement: &str) -> Rows {
        self.session().query(statement)
    }

    /// Creates the tables that `leafd schema` prints.
    pub fn create_table(&self) {
        self.sql(self.by_kind(schema::SQLITE, schema::MARIADB, schema::POSTGRES));
    }

    /// Creates a table with other column types, in place of any existing one.
    pub fn create_table_of(&self, biz_tag: &str, max_id: &str, step: &str) {
        self.sql("DROP TABLE IF EXISTS leaf_alloc");
        self.sql(&format!(
            "CREATE TABLE leaf_alloc (
               biz_tag {biz_tag} NOT NULL DEFAULT '' PRIMARY KEY,
               max_id {max_id},
               step {step},
               description varchar(256) DEFAULT NULL,
               update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
             )"
        ));
    }

    /// A string literal for a statement.
    #[must_use]
    pub fn quote(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        match self.kind() {
            Some(Kind::MariaDb) => format!("'{}'", text.replace('\\', "\\\\")),
            None | Some(Kind::Postgres) => format!("'{text}'"),
        }
    }

    /// Adds a row. The values of `max_id` and `step` are inserted into the statement as they are.
    pub fn insert(&self, tag: &str, max_id: &str, step: &str) {
        let tag = self.quote(tag);
        self.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})"
        ));
    }

    /// The values of `max_id`, `step` and `description` of a row.
    #[must_use]
    pub fn row(&self, tag: &str) -> Vec<Option<String>> {
        let quoted = self.quote(tag);
        let rows = self.query(&format!(
            "SELECT max_id, step, description FROM leaf_alloc WHERE biz_tag = {quoted}"
        ));
        let [row] = rows.try_into().unwrap_or_else(|rows| panic!("{tag:?}: {rows:?}"));
        row
    }

    /// The end of what is leased of a tag.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> u64 {
        let row = self.row(tag);
        let value = row[0].as_deref().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{tag:?}: {row:?}"))
    }
}
