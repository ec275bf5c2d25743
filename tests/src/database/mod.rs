//! Real MariaDB and PostgreSQL servers: private instances in folders of their own, with a user `leaf`
//! who needs a password. Tests can kill, freeze and restart them, and change the rights of the user.

mod mariadb;
mod postgres;
mod product;
mod replica;
mod server;
mod session;
mod template;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub use session::{Rows, Session};

use product::Product;
use server::Server;
use tempfile::TempDir;

use crate::binaries::{program, without_settings};
use crate::faketime::FakeTime;
use crate::instance::copy_folder;
use crate::log::Log;

/// The kind of a database server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB, which also represents MySQL.
    MariaDb,
    /// PostgreSQL.
    Postgres,
}

impl Kind {
    /// Both kinds, for tests that loop over them.
    pub const ALL: [Self; 2] = [Self::MariaDb, Self::Postgres];

    fn product(self) -> &'static dyn Product {
        match self {
            Self::MariaDb => &mariadb::MariaDb,
            Self::Postgres => &postgres::Postgres,
        }
    }
}

/// Additional settings for a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra<'a> {
    /// Names and contents of files in its data folder, which is its working directory.
    pub files: &'a [(&'a str, &'a str)],
    /// Arguments that follow its other arguments and override them.
    pub arguments: &'a [&'a str],
    /// A clock for its time of day. Its account has to be able to read the clock's file.
    pub clock: Option<&'a FakeTime>,
}

/// Runs functions that take a [`Kind`] as tests on every kind of database.
#[macro_export]
macro_rules! on_every_database {
    ($($name:ident,)*) => {
        mod mariadb {
            $(#[test] fn $name() { super::$name($crate::database::Kind::MariaDb); })*
        }
        mod postgres {
            $(#[test] fn $name() { super::$name($crate::database::Kind::Postgres); })*
        }
    };
}

/// A database on a server, with a user `leaf`. The server ends when the last of its databases is
/// dropped or the test process ends.
#[derive(Debug)]
pub struct Database {
    server: Arc<Server>,
    kind: Kind,
    name: String,
}

impl Database {
    /// Starts a server for this test alone, with an empty database. It needs Debian's package
    /// `mariadb-server` or `postgresql`.
    #[must_use]
    pub fn start(kind: Kind) -> Self {
        Self::start_with(kind, Extra::default())
    }

    /// Starts a server for this test alone, with additional settings.
    #[must_use]
    pub fn start_with(kind: Kind, extra: Extra<'_>) -> Self {
        let server = Arc::new(Server::start(kind.product(), extra));
        Self { server, kind, name: "leaf".to_owned() }
    }

    /// The server that the tests of this process share. Each test has to use a database of its own from
    /// [`Self::fresh`], and must not disturb the server.
    #[must_use]
    pub fn shared(kind: Kind) -> &'static Self {
        static MARIADB: OnceLock<Database> = OnceLock::new();
        static POSTGRES: OnceLock<Database> = OnceLock::new();
        let database = match kind {
            Kind::MariaDb => &MARIADB,
            Kind::Postgres => &POSTGRES,
        };
        database.get_or_init(|| Self::start(kind))
    }

    /// Creates an empty database on the same server, which takes one statement.
    #[must_use]
    pub fn fresh(&self) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("leaf_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.server.create_database(&name);
        Self { server: Arc::clone(&self.server), kind: self.kind, name }
    }

    /// Creates an empty database of this name on the same server.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        self.server.create_database(name);
        Self { server: Arc::clone(&self.server), kind: self.kind, name: name.to_owned() }
    }

    /// The kind of the server.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The URL of the database for the user `leaf`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// The URL for the user `leaf`, through another port of this host.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        self.server.product().url(port, &self.name)
    }

    /// The name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port of the server, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The process ID of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The folder of the server, which is removed with it. Its processes work in the subfolder `data`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.server.home().folder()
    }

    /// What the server has logged since its last start.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        self.server.log()
    }

    /// Opens a session as the superuser.
    #[must_use]
    pub fn session(&self) -> Session {
        self.server.session(&self.name)
    }

    /// Opens a session as the user `leaf`.
    #[must_use]
    pub fn leaf_session(&self) -> Session {
        let session = Session::open(&self.url());
        session.unwrap_or_else(|error| panic!("{}: {error}\n{}", self.url(), self.log()))
    }

    /// Executes a statement as the superuser.
    pub fn sql(&self, statement: &str) {
        self.session().execute(statement);
    }

    /// Executes a statement as the superuser, and returns its rows.
    #[must_use]
    pub fn query(&self, statement: &str) -> Rows {
        self.session().query(statement)
    }

    /// Creates the tables that `leafd schema` prints.
    pub fn create_table(&self) {
        self.create_table_with(self.server.product().create_table());
    }

    /// Creates Leaf's table with these statements. The user `leaf` may read and write it.
    pub fn create_table_with(&self, ddl: &str) {
        self.sql(ddl);
    }

    /// Creates all tables that `leafd schema` prints, with the rights on those of worker IDs.
    pub fn create_worker_tables(&self) {
        self.sql(&printed_schema(self.server.product().name()));
        for table in ["leafd_worker", "leafd_worker_fleet"] {
            self.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO leaf"));
        }
    }

    /// Creates the table by which a fleet notices lost leases, as `leafd schema` prints it, with the rights on it
    /// and on the tombstones.
    pub fn create_witness_table(&self) {
        let dialect = match self.kind {
            Kind::MariaDb => "mysql-witness",
            Kind::Postgres => "postgres-witness",
        };
        self.sql(&printed_schema(dialect));
        self.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON leafd_witness TO leaf");
        self.sql("GRANT SELECT, INSERT, UPDATE ON leafd_tombstone TO leaf");
    }

    /// Copies the data of a server that is not running.
    #[must_use]
    pub fn back_up(&self) -> TempDir {
        let backup = tempfile::tempdir().expect("a folder");
        copy_folder(&self.server.home().data(), &backup.path().join("data"));
        backup
    }

    /// Puts a copy in the place of the data of a server that is not running.
    pub fn restore(&self, backup: &TempDir) {
        let data = self.server.home().data();
        std::fs::remove_dir_all(&data).expect("the data can be removed");
        copy_folder(&backup.path().join("data"), &data);
    }

    /// Adds the row of a tag.
    pub fn insert_tag(&self, tag: &str, max_id: i64, step: i32) {
        let tag = self.server.product().quote(tag);
        self.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})"
        ));
    }

    /// A new database on the shared server, with leafd's tables and one tag.
    #[must_use]
    pub fn with_tag(kind: Kind, tag: &str, step: i32) -> Self {
        let database = Self::shared(kind).fresh();
        database.create_table();
        database.insert_tag(tag, 1, step);
        database
    }

    /// The end of what is leased of a tag.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> i64 {
        let tag_ = self.server.product().quote(tag);
        let rows = self.query(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = {tag_}"));
        let value = rows.into_iter().flatten().flatten().next();
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no tag {tag}"))
    }

    /// The settings of a daemon that reaches the database at one of its URLs: names without leafd's prefix,
    /// and values.
    #[must_use]
    pub fn settings(&self, url: &str) -> Vec<(&'static str, String)> {
        let kind = match self.kind {
            Kind::MariaDb => "mysql",
            Kind::Postgres => "postgres",
        };
        vec![("STORE_KIND", kind.to_owned()), ("STORE_URL", url.to_owned())]
    }

    /// A string literal for a statement.
    #[must_use]
    pub fn quote(&self, text: &str) -> String {
        self.server.product().quote(text)
    }

    /// Revokes all rights on the table from the user `leaf`, also for open connections. The user may
    /// still connect.
    pub fn revoke(&self) {
        self.sql("REVOKE ALL PRIVILEGES ON leaf_alloc FROM leaf");
    }

    /// Lets the user `leaf` only read the table, like a replica or a careless grant.
    pub fn revoke_writing(&self) {
        self.sql("REVOKE INSERT, UPDATE ON leaf_alloc FROM leaf");
    }

    /// Restores the rights of the user `leaf` on the table.
    pub fn grant(&self) {
        self.sql("GRANT SELECT, INSERT, UPDATE ON leaf_alloc TO leaf");
    }

    /// Gives the database an identity.
    pub fn identify(&self) {
        self.sql("CREATE TABLE leafd_identity (only_row int PRIMARY KEY, identity char(32))");
        self.sql("GRANT SELECT ON leafd_identity TO leaf");
        self.sql("INSERT INTO leafd_identity VALUES (1, '00000000000000000000000000000001')");
    }

    /// Grants the user `leaf` the rights that deleting tags needs.
    pub fn grant_deleting(&self) {
        self.sql("GRANT DELETE ON leaf_alloc TO leaf");
        self.sql("GRANT SELECT, INSERT, UPDATE ON leafd_tombstone TO leaf");
    }

    /// Freezes the server (SIGSTOP): connections stay open, and nothing answers. Returns once every
    /// process has stopped.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) {
        self.server.thaw();
    }

    /// Kills the server (SIGKILL), frozen or not.
    pub fn kill(&self) {
        self.server.kill();
    }

    /// Shuts the server down, which closes its connections, and waits for its end. A frozen server has
    /// to be thawed first.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts a killed or stopped server again with the same data and port, and waits until it answers.
    pub fn start_again(&self) {
        self.server.start_again();
    }

    /// Stops the server and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}

/// What `leafd schema` prints.
fn printed_schema(dialect: &str) -> String {
    let mut schema = Command::new(program("leafd"));
    without_settings(&mut schema);
    let printed = schema.args(["schema", dialect]).output().expect("leafd starts");
    assert!(printed.status.success(), "{printed:?}");
    String::from_utf8(printed.stdout).expect("text")
}
