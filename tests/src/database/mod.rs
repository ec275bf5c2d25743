//! Real database servers, MariaDB and PostgreSQL: private instances in folders of their own, with
//! a user `leaf` whose password is checked, and with the faults that servers have.

mod mariadb;
mod postgres;
mod product;
mod server;
mod session;
mod template;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub use session::{Rows, Session};

use product::Product;
use server::Server;

use crate::log::Log;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB, which stands for MySQL as well.
    MariaDb,
    /// PostgreSQL.
    Postgres,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::MariaDb, Self::Postgres];

    fn product(self) -> &'static dyn Product {
        match self {
            Self::MariaDb => &mariadb::MariaDb,
            Self::Postgres => &postgres::Postgres,
        }
    }
}

/// What a server gets beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra<'a> {
    /// Files in its data folder, which it works in: their names, and what is in them.
    pub files: &'a [(&'a str, &'a str)],
    /// Behind its other arguments, which they overrule.
    pub arguments: &'a [&'a str],
}

/// Makes a test for each kind of database, from functions that take the kind.
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

/// A database on a server, with a user `leaf`. The server ends with the last of its databases, or
/// with the test process.
#[derive(Debug)]
pub struct Database {
    server: Arc<Server>,
    kind: Kind,
    name: String,
}

impl Database {
    /// Starts a server for this test alone, with an empty database.
    ///
    /// # Panics
    /// When it does not start, as when Debian's package is not installed.
    #[must_use]
    pub fn start(kind: Kind) -> Self {
        Self::start_with(kind, Extra::default())
    }

    /// Starts a server for this test alone with more than it usually has.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(kind: Kind, extra: Extra<'_>) -> Self {
        let server = Arc::new(Server::start(kind.product(), extra));
        Self { server, kind, name: "leaf".to_owned() }
    }

    /// The server that the tests of this process share; it is started for the first of them. Each
    /// takes a database of its own with `fresh`, and harms no server that others use.
    ///
    /// # Panics
    /// When it does not start.
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

    /// A new, empty database on the same server, which is as quick as a statement.
    ///
    /// # Panics
    /// When the server does not make it.
    #[must_use]
    pub fn fresh(&self) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("leaf_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.server.create_database(&name);
        Self { server: Arc::clone(&self.server), kind: self.kind, name }
    }

    /// Which server it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the user `leaf` finds it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// Where the user `leaf` finds it through another port of this host.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        self.server.product().url(port, &self.name)
    }

    /// The name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port of the server, which it keeps.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The process ID of the server.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The folder of the server, which goes with it. Its processes work in `data` within.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.server.home().folder()
    }

    /// What the server logged since it was last started.
    #[must_use]
    pub fn log(&self) -> Log<'static> {
        self.server.log()
    }

    /// A session of the superuser.
    ///
    /// # Panics
    /// When the server is not there.
    #[must_use]
    pub fn session(&self) -> Session {
        self.server.session(&self.name)
    }

    /// A session of the user `leaf`, with its rights.
    ///
    /// # Panics
    /// When the server is not there, or does not let it in.
    #[must_use]
    pub fn leaf_session(&self) -> Session {
        let session = Session::open(&self.url());
        session.unwrap_or_else(|error| panic!("{}: {error}\n{}", self.url(), self.log()))
    }

    /// Executes a statement as the superuser.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) {
        self.session().execute(statement);
    }

    /// Executes a statement as the superuser, and returns the rows that it found.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn query(&self, statement: &str) -> Rows {
        self.session().query(statement)
    }

    /// Makes Leaf's table, as `leafd schema` says.
    ///
    /// # Panics
    /// When it is there already.
    pub fn create_table(&self) {
        self.create_table_with(self.server.product().create_table());
    }

    /// Makes Leaf's table by other statements than usual. The user `leaf` may read and write it.
    ///
    /// # Panics
    /// When they fail.
    pub fn create_table_with(&self, ddl: &str) {
        self.sql(ddl);
    }

    /// Adds a tag.
    ///
    /// # Panics
    /// When it is there already.
    pub fn insert_tag(&self, tag: &str, max_id: i64, step: i32) {
        let tag = self.server.product().quote(tag);
        self.sql(&format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})"
        ));
    }

    /// Leaf's table in a database of its own on the shared server, with one tag.
    ///
    /// # Panics
    /// When the server does not make it.
    #[must_use]
    pub fn with_tag(kind: Kind, tag: &str, step: i32) -> Self {
        let database = Self::shared(kind).fresh();
        database.create_table();
        database.insert_tag(tag, 1, step);
        database
    }

    /// Up to where the IDs of a tag are leased.
    ///
    /// # Panics
    /// When there is no such tag.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> i64 {
        let tag_ = self.server.product().quote(tag);
        let rows = self.query(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = {tag_}"));
        let value = rows.into_iter().flatten().flatten().next();
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no tag {tag}"))
    }

    /// Takes all rights on the table from the user `leaf`, who may connect as before. Those who
    /// are connected lose them as well.
    ///
    /// # Panics
    /// When it has none.
    pub fn revoke(&self) {
        self.sql("REVOKE ALL PRIVILEGES ON leaf_alloc FROM leaf");
    }

    /// Lets the user `leaf` read the table and no more: what a replica or a careless grant gives.
    ///
    /// # Panics
    /// When it may not write now.
    pub fn revoke_writing(&self) {
        self.sql("REVOKE INSERT, UPDATE ON leaf_alloc FROM leaf");
    }

    /// Gives the user `leaf` the rights on the table that it has at first.
    ///
    /// # Panics
    /// When there is no table.
    pub fn grant(&self) {
        self.sql("GRANT SELECT, INSERT, UPDATE ON leaf_alloc TO leaf");
    }

    /// Gives the user `leaf` the rights that deleting tags needs.
    ///
    /// # Panics
    /// When there is no table for tombstones.
    pub fn grant_deleting(&self) {
        self.sql("GRANT DELETE ON leaf_alloc TO leaf");
        self.sql("GRANT SELECT, INSERT, UPDATE ON leafd_tombstone TO leaf");
    }

    /// Stops every process of the server (SIGSTOP): connections stay, and nothing answers. Returns
    /// when all of them stand still.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.server.thaw();
    }

    /// Kills every process of the server (SIGKILL), frozen or not.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        self.server.kill();
    }

    /// Stops the server in order, which closes its connections, and waits for its end. A frozen
    /// one has to be thawed before.
    ///
    /// # Panics
    /// When it does not run, or does not end well.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts a server that was killed or stopped on its data, at its port, and waits until it
    /// answers.
    ///
    /// # Panics
    /// When it runs, or does not start.
    pub fn start_again(&self) {
        self.server.start_again();
    }

    /// Stops the server and starts it again.
    ///
    /// # Panics
    /// When it does not stop or start.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}
