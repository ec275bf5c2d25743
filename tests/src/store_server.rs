//! A server from which several hosts lease: MariaDB, PostgreSQL, Redis, or a server with two databases of
//! which each has a share of the IDs, for tests of what all of them promise. What is SQL's alone is in
//! [`Database`], what is Redis's alone in [`Redis`], and what is of several databases in [`Several`].

use std::path::Path;

use crate::database::{Database, Kind};
use crate::log::Log;
use crate::redis::Redis;
use crate::several::Several;

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreServerKind {
    /// A SQL database.
    Sql(Kind),
    /// Redis.
    Redis,
    /// Two databases with a share of the IDs each, on one server, so that they fail together.
    Several,
}

impl StoreServerKind {
    /// MariaDB, which also represents MySQL.
    pub const MARIADB: Self = Self::Sql(Kind::MariaDb);

    /// PostgreSQL.
    pub const POSTGRES: Self = Self::Sql(Kind::Postgres);

    /// All kinds, for tests that loop over them.
    pub const ALL: [Self; 4] = [Self::MARIADB, Self::POSTGRES, Self::Redis, Self::Several];
}

/// Runs functions that take a [`StoreServerKind`] as tests on every kind of server.
#[macro_export]
macro_rules! on_every_store_server {
    ($($name:ident,)*) => {
        $crate::on_every_store_with_identity! { $($name,)* }
        mod several {
            $(#[test] fn $name() { super::$name($crate::store_server::StoreServerKind::Several); })*
        }
    };
}

/// As [`on_every_store_server!`], where a database is another one if it says so. Several databases have a
/// division instead, which the configuration names.
#[macro_export]
macro_rules! on_every_store_with_identity {
    ($($name:ident,)*) => {
        mod mariadb {
            $(#[test] fn $name() { super::$name($crate::store_server::StoreServerKind::MARIADB); })*
        }
        mod postgres {
            $(#[test] fn $name() { super::$name($crate::store_server::StoreServerKind::POSTGRES); })*
        }
        mod redis {
            $(#[test] fn $name() { super::$name($crate::store_server::StoreServerKind::Redis); })*
        }
    };
}

/// A database on a server of some kind. The server ends when the last of its databases is dropped or the
/// test process ends.
#[derive(Debug)]
pub enum StoreServer {
    /// MariaDB or PostgreSQL.
    Sql(Database),
    /// Redis.
    Redis(Redis),
    /// Two databases with a share of the IDs each.
    Several(Several),
}

impl StoreServer {
    /// Starts a server for this test alone, with an empty database.
    #[must_use]
    pub fn start(kind: StoreServerKind) -> Self {
        match kind {
            StoreServerKind::Sql(kind) => Self::Sql(Database::start(kind)),
            StoreServerKind::Redis => Self::Redis(Redis::start()),
            StoreServerKind::Several => {
                Self::Several(Several::on_one_server(Database::start(Kind::MariaDb)))
            }
        }
    }

    /// An empty database on the server that the tests of this process share, and must not disturb.
    #[must_use]
    pub fn fresh(kind: StoreServerKind) -> Self {
        match kind {
            StoreServerKind::Sql(kind) => Self::Sql(Database::shared(kind).fresh()),
            StoreServerKind::Redis => Self::Redis(Redis::shared().fresh()),
            StoreServerKind::Several => {
                Self::Several(Several::on_one_server(Database::shared(Kind::MariaDb).fresh()))
            }
        }
    }

    /// As [`Self::fresh`], with leafd's tables and one tag.
    #[must_use]
    pub fn with_tag(kind: StoreServerKind, tag: &str, step: i32) -> Self {
        let server = Self::fresh(kind);
        server.create_table();
        server.insert_tag(tag, 1, step);
        server
    }

    /// As [`Self::start`], with leafd's tables and one tag.
    #[must_use]
    pub fn start_with_tag(kind: StoreServerKind, tag: &str, step: i32) -> Self {
        let server = Self::start(kind);
        server.create_table();
        server.insert_tag(tag, 1, step);
        server
    }

    /// The kind of the server.
    #[must_use]
    pub const fn kind(&self) -> StoreServerKind {
        match self {
            Self::Sql(database) => StoreServerKind::Sql(database.kind()),
            Self::Redis(_) => StoreServerKind::Redis,
            Self::Several(_) => StoreServerKind::Several,
        }
    }

    /// The SQL database.
    #[must_use]
    pub fn sql(&self) -> &Database {
        match self {
            Self::Sql(database) => database,
            Self::Redis(_) => panic!("Redis has no SQL"),
            Self::Several(_) => panic!("there are several databases"),
        }
    }

    /// The settings of a daemon that reaches the database through this port: names without leafd's prefix,
    /// and values.
    #[must_use]
    pub fn settings_at(&self, port: u16) -> Vec<(&'static str, String)> {
        match self {
            Self::Sql(database) => database.settings(&database.url_at(port)),
            Self::Redis(redis) => redis.settings_at(port),
            Self::Several(several) => several.settings(|_| port),
        }
    }

    /// The port of the server, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Sql(database) => database.port(),
            Self::Redis(redis) => redis.port(),
            Self::Several(several) => several.database(0).port(),
        }
    }

    /// The folder of the server, which is removed with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::Sql(database) => database.folder(),
            Self::Redis(redis) => redis.folder(),
            Self::Several(several) => several.database(0).folder(),
        }
    }

    /// What the server has logged since its last start.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        match self {
            Self::Sql(database) => database.log(),
            Self::Redis(redis) => redis.log(),
            Self::Several(several) => several.database(0).log(),
        }
    }

    /// Creates the tables that `leafd schema` prints. Redis needs none.
    pub fn create_table(&self) {
        match self {
            Self::Sql(database) => database.create_table(),
            Self::Redis(_) => {}
            Self::Several(several) => several.create_tables(),
        }
    }

    /// Adds a tag.
    pub fn insert_tag(&self, tag: &str, max_id: i64, step: i32) {
        match self {
            Self::Sql(database) => database.insert_tag(tag, max_id, step),
            Self::Redis(redis) => redis.insert_tag(tag, max_id, step),
            Self::Several(several) => several.insert_tag(tag, max_id, step),
        }
    }

    /// Adds many tags that begin at 1.
    pub fn insert_tags(&self, tags: &[String], step: i32) {
        match self {
            Self::Sql(database) => {
                let row = |tag: &String| format!("({}, 1, {step})", database.quote(tag));
                let rows = tags.iter().map(row).collect::<Vec<_>>().join(", ");
                database
                    .sql(&format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES {rows}"));
            }
            Self::Redis(redis) => tags.iter().for_each(|tag| redis.insert_tag(tag, 1, step)),
            Self::Several(several) => several.on_all(|database| {
                let row = |tag: &String| format!("({}, 1, {step})", database.quote(tag));
                let rows = tags.iter().map(row).collect::<Vec<_>>().join(", ");
                format!("INSERT INTO leafd_share_tag (biz_tag, max_id, step) VALUES {rows}")
            }),
        }
    }

    /// Where the next lease of a tag begins.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> i64 {
        match self {
            Self::Sql(database) => database.max_id(tag),
            Self::Redis(redis) => redis.max_id(tag),
            Self::Several(several) => several.max_id(tag),
        }
    }

    /// Changes where the next lease of a tag begins, as an operator or another program does.
    pub fn set_max_id(&self, tag: &str, max_id: i64) {
        match self {
            Self::Sql(database) => {
                let tag = database.quote(tag);
                database
                    .sql(&format!("UPDATE leaf_alloc SET max_id = {max_id} WHERE biz_tag = {tag}"));
            }
            Self::Redis(redis) => {
                redis.run(&["SET", &crate::redis::key(tag), &(max_id - 1).to_string()]);
            }
            Self::Several(several) => several.on_all(|database| {
                let tag = database.quote(tag);
                format!("UPDATE leafd_share_tag SET max_id = {max_id} WHERE biz_tag = {tag}")
            }),
        }
    }

    /// As [`Self::set_max_id`], without a trace of what was leased above: a failover lost the writes, or an
    /// operator restored a backup.
    pub fn forget(&self, tag: &str, max_id: i64) {
        if let Self::Redis(redis) = self {
            redis.run(&["HDEL", "leafd:leases", &crate::redis::key(tag)]);
        }
        self.set_max_id(tag, max_id);
    }

    /// The lowest value of `max_id` that leafd takes for valid. A counter that was never used is 0.
    #[must_use]
    pub const fn lowest_max_id(&self) -> i64 {
        match self {
            Self::Sql(_) | Self::Several(_) => 0,
            Self::Redis(_) => 1,
        }
    }

    /// Deletes a tag past leafd, as an operator or another program does.
    pub fn delete_tag(&self, tag: &str) {
        match self {
            Self::Sql(database) => {
                let tag = database.quote(tag);
                database.sql(&format!("DELETE FROM leaf_alloc WHERE biz_tag = {tag}"));
            }
            Self::Redis(redis) => {
                redis.run(&["DEL", &crate::redis::key(tag)]);
            }
            Self::Several(several) => several.on_all(|database| {
                let tag = database.quote(tag);
                format!("DELETE FROM leafd_share_tag WHERE biz_tag = {tag}")
            }),
        }
    }

    /// Gives the database an identity, if it has to be given one.
    pub fn identify(&self) {
        if let Self::Sql(database) = self {
            database.identify();
        }
    }

    /// Changes the identity, as if another database had taken the place of this one.
    pub fn replace_identity(&self) {
        let identity = "00000000000000000000000000000002";
        match self {
            Self::Sql(database) => {
                database.sql(&format!("UPDATE leafd_identity SET identity = '{identity}'"));
            }
            Self::Redis(redis) => {
                redis.run(&["SET", "leafd:identity", identity]);
            }
            Self::Several(several) => {
                several.on_all(|_| format!("UPDATE leafd_division SET division = '{identity}'"))
            }
        }
    }

    /// Grants the user `leaf` the rights that deleting tags needs.
    pub fn grant_deleting(&self) {
        if let Self::Sql(database) = self {
            database.grant_deleting();
        }
    }

    /// Freezes the server (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self) {
        match self {
            Self::Sql(database) => database.freeze(),
            Self::Redis(redis) => redis.freeze(),
            Self::Several(several) => several.database(0).freeze(),
        }
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) {
        match self {
            Self::Sql(database) => database.thaw(),
            Self::Redis(redis) => redis.thaw(),
            Self::Several(several) => several.database(0).thaw(),
        }
    }

    /// Kills the server (SIGKILL), frozen or not.
    pub fn kill(&self) {
        match self {
            Self::Sql(database) => database.kill(),
            Self::Redis(redis) => redis.kill(),
            Self::Several(several) => several.database(0).kill(),
        }
    }

    /// Shuts the server down, which closes its connections, and waits for its end.
    pub fn stop(&self) {
        match self {
            Self::Sql(database) => database.stop(),
            Self::Redis(redis) => redis.stop(),
            Self::Several(several) => several.database(0).stop(),
        }
    }

    /// Starts a killed or stopped server again with the same data and port, and waits until it answers.
    pub fn start_again(&self) {
        match self {
            Self::Sql(database) => database.start_again(),
            Self::Redis(redis) => redis.start_again(),
            Self::Several(several) => several.database(0).start_again(),
        }
    }

    /// Stops the server and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}

impl From<Database> for StoreServer {
    fn from(database: Database) -> Self {
        Self::Sql(database)
    }
}

impl From<Redis> for StoreServer {
    fn from(redis: Redis) -> Self {
        Self::Redis(redis)
    }
}
