//! All stores, for tests of what all of them promise. A test opens a store as the daemons of
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
use leafd::secret::Secret;
use leafd::state::mark::Inodes;
use leafd::store::LeaseAsk;
use leafd::store::{
    DatabaseGuard, EmbeddedStore, IfMissing, Leased, RedisPlace, RedisStore, ServerKind,
    SeveralPlace, SeveralStores, SharedStore, Store, StoreLimits, StoreSource, open, schema,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::PATIENCE;
use crate::database::{Database, Kind, Rows, Session};
use crate::redis::{Redis, key};
use crate::several::Several;
use crate::store_server::{StoreServer, StoreServerKind};

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

            #[test]
            fn redis() {
                super::$promise(&TestStore::redis());
            }

            #[test]
            fn several() {
                super::$promise(&TestStore::several());
            }
        }
    )+};
}

/// Runs functions that take a [`TestStore`] as tests on every store that speaks SQL.
#[macro_export]
macro_rules! on_every_sql_store {
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

/// Runs functions that take a [`TestStore`] as tests on every shared store.
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

            #[test]
            fn redis() {
                super::$promise(&TestStore::redis());
            }
        }
    )+};
}

/// Runs functions that take a [`TestStore`] as tests on every shared database that speaks SQL.
#[macro_export]
macro_rules! on_every_sql_server {
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
    Server(StoreServer),
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

    /// A new database on the Redis server that all tests share.
    #[must_use]
    pub fn redis() -> Self {
        Self::on(Redis::shared().fresh())
    }

    /// Two new databases with shares on the MariaDB server that all tests share.
    #[must_use]
    pub fn several() -> Self {
        Self::on(StoreServer::fresh(StoreServerKind::Several))
    }

    /// A store in a given database.
    #[must_use]
    pub fn on(server: impl Into<StoreServer>) -> Self {
        Self(Place::Server(server.into()))
    }

    /// The kind of the server; none if the store is embedded.
    #[must_use]
    pub const fn kind(&self) -> Option<StoreServerKind> {
        match &self.0 {
            Place::File(_) => None,
            Place::Server(server) => Some(server.kind()),
        }
    }

    /// Whether it is Redis.
    #[must_use]
    pub const fn is_redis(&self) -> bool {
        matches!(self.kind(), Some(StoreServerKind::Redis))
    }

    /// Whether there are several databases.
    #[must_use]
    pub const fn is_several(&self) -> bool {
        matches!(self.kind(), Some(StoreServerKind::Several))
    }

    /// The highest end of a lease: 2^63 - 1, or that of the last block of the first share, or of both.
    #[must_use]
    pub const fn last_end(&self, of_first_share: bool) -> i64 {
        match (self.is_several(), of_first_share) {
            (false, _) => i64::MAX,
            (true, true) => 9_223_372_036_801_000_000,
            (true, false) => 9_223_372_036_849_000_000,
        }
    }

    /// The table of tags.
    #[must_use]
    pub const fn table(&self) -> &'static str {
        if self.is_several() { "leafd_share_tag" } else { "leaf_alloc" }
    }

    /// The server of a shared store.
    #[must_use]
    pub fn server(&self) -> &StoreServer {
        match &self.0 {
            Place::File(_) => panic!("there is no server"),
            Place::Server(server) => server,
        }
    }

    /// The SQL database of a shared store, or the first one.
    #[must_use]
    pub fn database(&self) -> &Database {
        match &self.0 {
            Place::Server(StoreServer::Several(several)) => several.database(0),
            _ => self.server().sql(),
        }
    }

    /// The Redis database of a shared store.
    fn as_redis(&self) -> Option<&Redis> {
        match &self.0 {
            Place::Server(StoreServer::Redis(redis)) => Some(redis),
            Place::File(_) | Place::Server(_) => None,
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

    /// One of three values, for what differs between the SQL databases.
    pub fn by_kind<T>(&self, sqlite: T, mariadb: T, postgres: T) -> T {
        match self.kind() {
            None => sqlite,
            Some(StoreServerKind::MARIADB | StoreServerKind::Several) => mariadb,
            Some(StoreServerKind::POSTGRES) => postgres,
            Some(StoreServerKind::Redis) => panic!("Redis has no SQL"),
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
            Place::Server(StoreServer::Sql(database)) => {
                open_at(self.speaks(), &database.url(), true, limits)
            }
            Place::Server(StoreServer::Redis(redis)) => open_redis(redis, limits),
            Place::Server(StoreServer::Several(several)) => open_several(several, limits),
        }
    }

    /// Opens a session with all rights, as an operator.
    #[must_use]
    pub fn session(&self) -> Session {
        match &self.0 {
            Place::File(_) => {
                Session::open(&format!("sqlite:{}", self.path().display())).expect("a session")
            }
            Place::Server(_) => self.database().session(),
        }
    }

    /// A session with all rights in each database.
    fn sessions_of_all(&self) -> Vec<Session> {
        match &self.0 {
            Place::Server(StoreServer::Several(several)) => {
                several.databases().iter().map(Database::session).collect()
            }
            _ => vec![self.session()],
        }
    }

    /// Executes a statement as an operator.
    pub fn sql(&self, statement: &str) {
        self.sessions_of_all().iter_mut().for_each(|session| session.execute(statement));
    }

    /// Executes a statement as an operator, and returns its rows.
    #[must_use]
    pub fn query(&self, statement: &str) -> Rows {
        self.session().query(statement)
    }

    /// Creates the tables that `leafd schema` prints. Redis needs none.
    pub fn create_table(&self) {
        if let Place::Server(StoreServer::Several(several)) = &self.0 {
            return several.create_tables();
        }
        if self.is_redis() {
            return;
        }
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
            Some(StoreServerKind::MARIADB | StoreServerKind::Several) => {
                format!("'{}'", text.replace('\\', "\\\\"))
            }
            _ => format!("'{text}'"),
        }
    }

    /// Adds a row. The values of `max_id` and `step` are inserted into the statement as they are; on Redis
    /// they are numbers.
    pub fn insert(&self, tag: &str, max_id: &str, step: &str) {
        if let Some(redis) = self.as_redis() {
            return redis.insert(tag, &counter(max_id), step);
        }
        let tag = self.quote(tag);
        let table = self.table();
        self.sql(&format!(
            "INSERT INTO {table} (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})"
        ));
    }

    /// Changes the values of a row, as [`Self::insert`] writes them.
    pub fn update(&self, tag: &str, max_id: &str, step: &str) {
        if let Some(redis) = self.as_redis() {
            return redis.insert(tag, &counter(max_id), step);
        }
        let tag = self.quote(tag);
        let table = self.table();
        self.sql(&format!(
            "UPDATE {table} SET max_id = {max_id}, step = {step} WHERE biz_tag = {tag}"
        ));
    }

    /// Changes where the next lease of a row begins.
    pub fn set_max_id(&self, tag: &str, max_id: &str) {
        if let Some(redis) = self.as_redis() {
            redis.run(&["SET", &key(tag), &counter(max_id)]);
            return;
        }
        let tag = self.quote(tag);
        let table = self.table();
        self.sql(&format!("UPDATE {table} SET max_id = {max_id} WHERE biz_tag = {tag}"));
    }

    /// Deletes a row past leafd.
    pub fn remove(&self, tag: &str) {
        if let Some(redis) = self.as_redis() {
            redis.run(&["DEL", &key(tag)]);
            return;
        }
        let tag = self.quote(tag);
        let table = self.table();
        self.sql(&format!("DELETE FROM {table} WHERE biz_tag = {tag}"));
    }

    /// How leafd's messages show a value of `max_id`: Redis has the highest ID that was given.
    #[must_use]
    pub fn shown(&self, max_id: i64) -> String {
        if self.is_redis() { counter(&max_id.to_string()) } else { max_id.to_string() }
    }

    /// Whether there is such a row.
    #[must_use]
    pub fn has(&self, tag: &str) -> bool {
        if let Some(redis) = self.as_redis() {
            return redis.counter(tag).is_some();
        }
        let quoted = self.quote(tag);
        let table = self.table();
        let rows = self.query(&format!("SELECT max_id FROM {table} WHERE biz_tag = {quoted}"));
        !rows.is_empty()
    }

    /// The values of `max_id`, `step` and `description` of a row.
    #[must_use]
    pub fn row(&self, tag: &str) -> Vec<Option<String>> {
        if let Some(redis) = self.as_redis() {
            let number = |text: &String| text.parse::<i64>().ok()?.checked_add(1);
            let max_id = redis.counter(tag).map(|counter| match number(&counter) {
                Some(max_id) => max_id.to_string(),
                None => format!("counter {counter}"),
            });
            return vec![max_id, redis.own("steps", tag), redis.own("descriptions", tag)];
        }
        let quoted = self.quote(tag);
        let table = self.table();
        let rows = self.query(&format!(
            "SELECT max_id, step, description FROM {table} WHERE biz_tag = {quoted}"
        ));
        let [row] = rows.try_into().unwrap_or_else(|rows| panic!("{tag:?}: {rows:?}"));
        row
    }

    /// The end of what is leased of a tag.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> u64 {
        if let Place::Server(StoreServer::Several(several)) = &self.0 {
            return several.max_id(tag).unsigned_abs();
        }
        let row = self.row(tag);
        let value = row[0].as_deref().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{tag:?}: {row:?}"))
    }
}

/// The counter of a tag whose next lease begins at `max_id`. It cannot be below the least number.
fn counter(max_id: &str) -> String {
    let max_id: i64 = max_id.parse().unwrap_or_else(|_| panic!("not a number: {max_id}"));
    max_id.saturating_sub(1).to_string()
}

/// Opens several databases, each at a URL with the password.
fn open_several(several: &Several, limits: StoreLimits) -> Arc<dyn Store> {
    let addresses = several.databases().iter().map(|database| {
        let server = match database.kind() {
            Kind::MariaDb => ServerKind::MySql,
            Kind::Postgres => ServerKind::Postgres,
        };
        server.address(&database.url(), true).expect("an address")
    });
    let place = SeveralPlace::new(addresses.collect(), &several.division()).expect("a division");
    let environment = Environment::system();
    let stores = SeveralStores { place, password: None, limits, environment };
    let _within = RUNTIME.enter();
    open(StoreSource::Several(Box::new(stores)), DatabaseGuard::unrecorded()).expect("a store")
}

/// Opens a store in Redis, with the default key and margin.
#[must_use]
pub fn open_redis(redis: &Redis, limits: StoreLimits) -> Arc<dyn Store> {
    open_redis_with(redis, limits, |_| {})
}

/// As [`open_redis`], with changed settings.
#[must_use]
pub fn open_redis_with(
    redis: &Redis,
    limits: StoreLimits,
    change: impl FnOnce(&mut RedisStore),
) -> Arc<dyn Store> {
    let servers = format!("127.0.0.1:{}", redis.port());
    let place = RedisPlace::parse(&servers, None, redis.number());
    let mut store = RedisStore {
        place: place.expect("a place"),
        password: Some(Secret::new("secret")),
        sentinel_password: None,
        limits,
        default_step: 1000,
        environment: Environment::system(),
    };
    store.place.user = Some("leaf".to_owned());
    change(&mut store);
    let _within = RUNTIME.enter();
    let source = StoreSource::Redis(Box::new(store));
    open(source, DatabaseGuard::unrecorded()).expect("a store")
}
