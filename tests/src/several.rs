//! Several databases with a share of the IDs each (`store.kind = "several"`), on one server or on servers
//! of their own. `leafd division make` gives them their shares, as an operator does it.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::binaries::{program, without_settings};
use crate::database::{Database, Kind, Rows};

/// The tables, and what the manual grants on them.
const TABLES: [&str; 4] =
    ["leafd_share_tag", "leafd_share_tombstone", "leafd_division", "leafd_share_grant"];

/// The databases in the order of `store.urls`.
#[derive(Debug)]
pub struct Several {
    databases: Vec<Database>,
    division: Mutex<Option<String>>,
}

impl Several {
    /// Servers of their own, so that each can fail alone.
    #[must_use]
    pub fn start(kinds: &[Kind]) -> Self {
        Self::of(kinds.iter().map(|kind| Database::start(*kind)).collect())
    }

    /// Two databases on one server, which fail together.
    #[must_use]
    pub fn on_one_server(server: Database) -> Self {
        let second = server.fresh();
        Self::of(vec![server, second])
    }

    /// These databases, which have no tables yet.
    #[must_use]
    pub fn of(databases: Vec<Database>) -> Self {
        Self { databases, division: Mutex::default() }
    }

    /// One of the databases, by its place in the list.
    #[must_use]
    pub fn database(&self, index: usize) -> &Database {
        &self.databases[index]
    }

    /// The databases in the order of the list.
    #[must_use]
    pub fn databases(&self) -> &[Database] {
        &self.databases
    }

    /// The value of `store.urls`, each through the port that `port` returns for it.
    #[must_use]
    pub fn urls(&self, port: impl Fn(&Database) -> u16) -> String {
        urls(self.databases.iter().map(|database| database.url_at(port(database))))
    }

    /// The name of the division; empty before `leafd division make`.
    #[must_use]
    pub fn division(&self) -> String {
        let division = self.division.lock().unwrap_or_else(PoisonError::into_inner);
        division.clone().unwrap_or_default()
    }

    /// The settings of a daemon: names without leafd's prefix, and values.
    #[must_use]
    pub fn settings(&self, port: impl Fn(&Database) -> u16) -> Vec<(&'static str, String)> {
        settings_of(&self.urls(port), &self.division())
    }

    /// Makes the tables, and gives each database its share.
    pub fn create_tables(&self) {
        self.databases.iter().for_each(create_tables);
        let printed = divide(&self.urls(Database::port), "", &["make"]);
        let text = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert!(printed.status.success(), "{printed:?}");
        let name = name_in(&text).unwrap_or_else(|| panic!("no name in {text}"));
        *self.division.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    }

    /// Adds the row of a tag to each database, as leafd does.
    pub fn insert_tag(&self, tag: &str, max_id: i64, step: i32) {
        self.on_all(|database| {
            let tag = database.quote(tag);
            format!("INSERT INTO leafd_share_tag (biz_tag, max_id, step) VALUES ({tag}, {max_id}, {step})")
        });
    }

    /// Executes a statement in each database as the superuser.
    pub fn on_all(&self, statement: impl Fn(&Database) -> String) {
        for database in &self.databases {
            database.sql(&statement(database));
        }
    }

    /// Where the row of a tag stands in one of the databases.
    #[must_use]
    pub fn max_id_in(&self, index: usize, tag: &str) -> i64 {
        max_id(self.database(index), tag)
    }

    /// The furthest row of a tag.
    #[must_use]
    pub fn max_id(&self, tag: &str) -> i64 {
        self.databases.iter().map(|database| max_id(database, tag)).max().unwrap_or(0)
    }
}

/// Where the row of a tag stands in a database.
#[must_use]
pub fn max_id(database: &Database, tag: &str) -> i64 {
    let quoted = database.quote(tag);
    let rows: Rows =
        database.query(&format!("SELECT max_id FROM leafd_share_tag WHERE biz_tag = {quoted}"));
    let value = rows.into_iter().flatten().flatten().next();
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no tag {tag}"))
}

/// The value of `store.urls` for these URLs.
#[must_use]
pub fn urls(urls: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<_> = urls.into_iter().map(|url| format!("\"{url}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The settings of a daemon with these databases.
#[must_use]
pub fn settings_of(urls: &str, division: &str) -> Vec<(&'static str, String)> {
    vec![
        ("STORE_KIND", "several".to_owned()),
        ("STORE_URLS", urls.to_owned()),
        ("STORE_DIVISION", division.to_owned()),
    ]
}

/// Makes the tables that `leafd schema` prints for one of several databases, with the rights on them.
pub fn create_tables(database: &Database) {
    let dialect = match database.kind() {
        Kind::MariaDb => "mariadb-several",
        Kind::Postgres => "postgres-several",
    };
    let mut schema = Command::new(program("leafd"));
    without_settings(&mut schema);
    let printed = schema.args(["schema", dialect]).output().expect("leafd starts");
    assert!(printed.status.success(), "{printed:?}");
    database.sql(&String::from_utf8(printed.stdout).expect("text"));
    for table in TABLES {
        database.sql(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO leaf"));
    }
    database.sql("GRANT DELETE ON leafd_share_tag TO leaf");
}

fn division_command(urls: &str, division: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("leafd"));
    without_settings(&mut command);
    for (key, value) in settings_of(urls, division) {
        command.env(format!("LEAFD_{key}"), value);
    }
    command.env("LEAFD_STORE_TIMEOUT", "10s").arg("division").args(arguments);
    command
}

/// Runs `leafd division` with these settings and arguments.
#[must_use]
pub fn divide(urls: &str, division: &str, arguments: &[&str]) -> Output {
    division_command(urls, division, arguments).output().expect("leafd starts")
}

/// Runs `leafd division make`, and kills it after a while.
pub fn divide_until(urls: &str, division: &str, after: Duration) {
    let mut command = division_command(urls, division, &["make"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("leafd starts");
    std::thread::sleep(after);
    child.kill().expect("it is this process's child");
    child.wait().expect("it has ended");
}

/// The name of the division that `leafd division make` printed.
#[must_use]
pub fn name_in(printed: &str) -> Option<String> {
    let (_, rest) = printed.split_once("store.division = \"")?;
    Some(rest.split_once('"')?.0.to_owned())
}
