//! The three stores side by side, each with a place of its own: opened as the daemons of several
//! hosts open it, and worked on beside them as an operator does. What is promised of one is
//! promised of all, so a promise is written once and kept on every store.

mod sessions;

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use leafd::ids::BizTag;
use leafd::state::mark::Inodes;
use leafd::store::LeaseAsk;
use leafd::store::{
    DatabaseGuard, EmbeddedStore, IfMissing, Leased, ServerKind, SharedStore, Store, StoreLimits,
    StoreSource, open, schema,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::database::{Database, Kind, Rows, Session};

/// How long anything may take before a test gives up. No test measures time by it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// As a daemon has them at first, but for the time: machines that run tests are slow at times.
pub const LIMITS: StoreLimits = StoreLimits { timeout: Duration::from_secs(60), connections: 2 };

/// A lease of the row's step, wherever the row stands.
pub const ASK: LeaseAsk = LeaseAsk { at_least: 0, floor: 0 };

/// Makes a test for each store out of functions that take a [`Bench`].
#[macro_export]
macro_rules! on_every_store {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::stores::Bench;

            #[test]
            fn sqlite() {
                super::$promise(&Bench::sqlite());
            }

            #[test]
            fn mariadb() {
                super::$promise(&Bench::mariadb());
            }

            #[test]
            fn postgres() {
                super::$promise(&Bench::postgres());
            }
        }
    )+};
}

/// Makes a test for each shared database out of functions that take a [`Bench`].
#[macro_export]
macro_rules! on_every_server {
    ($($promise:ident,)+) => {$(
        mod $promise {
            use leafd_tests::stores::Bench;

            #[test]
            fn mariadb() {
                super::$promise(&Bench::mariadb());
            }

            #[test]
            fn postgres() {
                super::$promise(&Bench::postgres());
            }
        }
    )+};
}

/// Where the stores of a test do their work, and its futures.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
});

/// Waits for a call of a store.
///
/// # Panics
/// When it does not end.
pub fn run<F: Future>(call: F) -> F::Output {
    let bounded = async { tokio::time::timeout(PATIENCE, call).await };
    RUNTIME.block_on(bounded).expect("the call ends")
}

/// Lets calls of a store run beside the test.
pub fn spawn<F>(calls: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    RUNTIME.spawn(calls)
}

/// Waits until something holds.
///
/// # Panics
/// When it never does.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it never comes that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A tag.
///
/// # Panics
/// When no tag can be called so.
#[must_use]
pub fn tag(name: &str) -> BizTag {
    BizTag::new(name).unwrap_or_else(|error| panic!("{error}"))
}

/// Where a lease begins and ends.
#[must_use]
pub const fn span(leased: &Leased) -> (u64, u64) {
    (leased.lease.range.start(), leased.lease.range.end())
}

/// A store at an address with its password in it.
///
/// # Panics
/// When the address is none.
#[must_use]
pub fn open_at(server: ServerKind, url: &str, verify: bool, limits: StoreLimits) -> Arc<dyn Store> {
    let address = server.address(url, verify).expect("an address");
    let _within = RUNTIME.enter();
    let source = StoreSource::Shared(SharedStore { address, password: None, limits });
    open(source, DatabaseGuard::unrecorded()).expect("a store")
}

/// The embedded store in a file.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn embedded(path: &Path, timeout: Duration, if_missing: IfMissing) -> Arc<dyn Store> {
    let path = path.to_owned();
    let place = EmbeddedStore { path, timeout, if_missing, inodes: Inodes::Stable };
    open(StoreSource::Embedded(place), DatabaseGuard::unrecorded()).expect("a store")
}

/// One store, with nothing in it yet.
#[derive(Debug)]
pub struct Bench(Place);

#[derive(Debug)]
enum Place {
    File(TempDir),
    Server(Database),
}

impl Bench {
    /// The embedded store.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn sqlite() -> Self {
        let bench = Self(Place::File(tempfile::tempdir().expect("a folder")));
        File::create(bench.path()).expect("an empty database");
        bench
    }

    /// A database on the MariaDB that all tests share.
    #[must_use]
    pub fn mariadb() -> Self {
        Self::on(Database::shared(Kind::MariaDb).fresh())
    }

    /// A database on the PostgreSQL that all tests share.
    #[must_use]
    pub fn postgres() -> Self {
        Self::on(Database::shared(Kind::Postgres).fresh())
    }

    /// A database.
    #[must_use]
    pub const fn on(database: Database) -> Self {
        Self(Place::Server(database))
    }

    /// The server; none when the store is embedded.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        match &self.0 {
            Place::File(_) => None,
            Place::Server(database) => Some(database.kind()),
        }
    }

    /// The database.
    ///
    /// # Panics
    /// When the store is embedded.
    #[must_use]
    pub fn database(&self) -> &Database {
        match &self.0 {
            Place::File(_) => panic!("there is no server"),
            Place::Server(database) => database,
        }
    }

    /// What its address speaks.
    ///
    /// # Panics
    /// When the store is embedded.
    #[must_use]
    pub fn speaks(&self) -> ServerKind {
        match self.database().kind() {
            Kind::MariaDb => ServerKind::MySql,
            Kind::Postgres => ServerKind::Postgres,
        }
    }

    /// The file of the embedded store.
    ///
    /// # Panics
    /// When the store is shared.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.0 {
            Place::File(folder) => folder.path().join("leafd.db"),
            Place::Server(_) => panic!("there is no file"),
        }
    }

    /// One of three values, for what the databases have different words for.
    pub fn by_kind<T>(&self, sqlite: T, mariadb: T, postgres: T) -> T {
        match self.kind() {
            None => sqlite,
            Some(Kind::MariaDb) => mariadb,
            Some(Kind::Postgres) => postgres,
        }
    }

    /// One more handle, as the daemon of one more host has it.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Store> {
        self.open_with(LIMITS)
    }

    /// One more handle with limits of its own.
    ///
    /// # Panics
    /// When it cannot be made.
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

    /// A session of an operator, who may do everything.
    ///
    /// # Panics
    /// When there is none to be had.
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
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) {
        self.session().execute(statement);
    }

    /// Executes a statement as an operator, and returns what it found.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn query(&self, statement: &str) -> Rows {
        self.session().query(statement)
    }

    /// Makes the table as `leafd schema` shows it.
    ///
    /// # Panics
    /// When that fails.
    pub fn create_table(&self) {
        self.sql(self.by_kind(schema::SQLITE, schema::MARIADB, schema::POSTGRES));
    }

    /// Makes, or makes anew, a table as somebody else might have: with other types of the columns
    /// that count.
    ///
    /// # Panics
    /// When that fails.
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

    /// A text as it is written in a statement.
    #[must_use]
    pub fn quote(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        match self.kind() {
            Some(Kind::MariaDb) => format!("'{}'", text.replace('\\', "\\\\")),
            None | Some(Kind::Postgres) => format!("'{text}'"),
        }
    }

    /// Adds a row, with the values as they are written in a statement.
    ///
    /// # Panics
    /// When the database does not take it.
    pub fn insert(&self, tag: &str, max_id: &str, step: &str) {
        let tag = self.quote(tag);
        self.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})"
        ));
    }

    /// `max_id`, `step` and `description` of a row as they stand there.
    ///
    /// # Panics
    /// When there is not one such row.
    #[must_use]
    pub fn row(&self, tag: &str) -> Vec<Option<String>> {
        let quoted = self.quote(tag);
        let rows = self.query(&format!(
            "SELECT max_id, step, description FROM leaf_alloc WHERE biz_tag = {quoted}"
        ));
        let [row] = rows.try_into().unwrap_or_else(|rows| panic!("{tag:?}: {rows:?}"));
        row
    }

    /// Up to where the IDs of a tag are leased.
    ///
    /// # Panics
    /// When the row does not say.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> u64 {
        let row = self.row(tag);
        let value = row[0].as_deref().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{tag:?}: {row:?}"))
    }
}
