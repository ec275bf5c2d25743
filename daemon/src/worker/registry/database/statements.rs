//! The statements of the registry, written once with `?` for a value, and what differs between databases.

use std::time::Duration;

use super::access::DatabasePlace;
use crate::store::SharedOptions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SqlKind {
    MySql,
    Postgres,
    Sqlite,
}

impl SqlKind {
    pub(super) fn of(place: &DatabasePlace) -> Self {
        match place {
            DatabasePlace::File(_) => Self::Sqlite,
            DatabasePlace::Server { options, .. } => match **options {
                SharedOptions::MySql(_) => Self::MySql,
                SharedOptions::Postgres(_) => Self::Postgres,
            },
        }
    }

    /// A column or an expression as text.
    fn text(self, column: &str) -> String {
        match self {
            Self::MySql => format!("CAST({column} AS CHAR)"),
            Self::Postgres => format!("({column})::text"),
            Self::Sqlite => format!("CAST({column} AS TEXT)"),
        }
    }

    /// The server's time (ms since 1970). A session of MySQL has UTC, in which no hour comes twice.
    const fn now(self) -> &'static str {
        match self {
            Self::MySql => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
            Self::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        }
    }

    /// What tells one server, and one connection to it, from every other.
    const fn server(self) -> &'static str {
        match self {
            Self::MySql => "CONCAT_WS('/', @@hostname, @@port, @@server_id, CONNECTION_ID())",
            Self::Postgres => "concat_ws('/', pg_postmaster_start_time(), pg_backend_pid())",
            Self::Sqlite => "''",
        }
    }

    /// What says that the server takes no writes, where a user with enough rights may write all the same.
    const fn read_only(self) -> Option<&'static str> {
        match self {
            Self::MySql => Some("@@global.read_only"),
            // Nobody writes to a standby.
            Self::Postgres | Self::Sqlite => None,
        }
    }

    /// Locks the rows that a statement reads. SQLite locks the whole file.
    const fn locked(self) -> &'static str {
        match self {
            Self::MySql | Self::Postgres => " FOR UPDATE",
            Self::Sqlite => "",
        }
    }

    /// An INSERT that does nothing where there is such a row.
    fn insert_or_nothing(self, rest: &str) -> String {
        match self {
            Self::MySql => format!("INSERT IGNORE INTO {rest}"),
            Self::Postgres => format!("INSERT INTO {rest} ON CONFLICT DO NOTHING"),
            Self::Sqlite => format!("INSERT OR IGNORE INTO {rest}"),
        }
    }

    /// Puts in this database's placeholders.
    fn with_placeholders(self, statement: &str) -> String {
        if self != Self::Postgres {
            return statement.to_owned();
        }
        let mut parts = statement.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (number, part) in (1..).zip(parts) {
            text.push_str(&format!("${number}{part}"));
        }
        text
    }

    /// Begins a transaction in which the server gives up before leafd does, and whose end is on disk.
    fn begin(self, timeout: Duration, writes: bool) -> String {
        let ms = |time: Duration| time.as_millis().max(1);
        match self {
            Self::MySql => "START TRANSACTION".to_owned(),
            // It does not ask for READ WRITE: transactions that are read-only by default fence an old
            // primary.
            Self::Postgres => format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
                 SET LOCAL statement_timeout = {}; \
                 SET LOCAL idle_in_transaction_session_timeout = {}; \
                 SET LOCAL synchronous_commit = on",
                ms(timeout * 4 / 5),
                ms(timeout),
                ms(timeout * 3),
            ),
            Self::Sqlite if writes => "BEGIN IMMEDIATE".to_owned(),
            Self::Sqlite => "BEGIN".to_owned(),
        }
    }
}

/// The statements, as one database has them. The first values are the fleet and, where a record is meant,
/// its path.
#[derive(Debug)]
pub(super) struct Statements {
    kind: SqlKind,
    begin_writing: String,
    begin_reading: String,
    /// The server's time, and what names it.
    pub(super) server: String,
    /// Whether the server takes no writes, where a user may write all the same.
    pub(super) read_only: Option<String>,
    /// Values: the fleet. Locks its row until the end of the transaction.
    pub(super) count: String,
    /// As `count`, and takes a number.
    pub(super) take_number: String,
    /// How many changes there were, and the next number.
    pub(super) fleet: String,
    pub(super) make_fleet: String,
    /// Values: fleet, path, record.
    pub(super) make_record: String,
    /// Values: fleet, path. Path, record, version, created, modified.
    pub(super) record: String,
    /// As `record`, of all paths from the first on and before the second.
    pub(super) records_between: String,
    /// Their paths alone.
    pub(super) paths_between: String,
    /// Path, session, beat, and how long it lasts.
    pub(super) markers_between: String,
    /// Values: fleet, path, session, beat.
    pub(super) drop_marker: String,
    /// Values: fleet, path, session.
    pub(super) beat: String,
    /// Locks the row.
    pub(super) version: String,
    /// Values: fleet, path, record, created, session, how long a beat lasts.
    pub(super) insert: String,
    /// Values: record, fleet, path, version.
    pub(super) set: String,
    /// Values: record, fleet, path.
    pub(super) set_any: String,
    /// Values: fleet, path, version.
    pub(super) delete: String,
}

const HERE: &str = "WHERE fleet = ? AND path = ?";
const BETWEEN: &str = "WHERE fleet = ? AND path >= ? AND path < ?";

impl Statements {
    pub(super) fn new(kind: SqlKind, timeout: Duration) -> Self {
        let now = kind.now();
        let texts = |columns: &[&str]| {
            let columns: Vec<_> = columns.iter().map(|column| kind.text(column)).collect();
            columns.join(", ")
        };
        let record = texts(&["path", "record", "version", "created", "modified_ms"]);
        let path = kind.text("path");
        let marker = texts(&["path", "session", "beat", "lasts_ms"]);
        let server = texts(&[now, kind.server()]);
        let fleet = texts(&["changes", "next_worker"]);
        let version = kind.text("version");
        let locked = kind.locked();
        let set = format!(
            "UPDATE leafd_worker SET record = ?, version = version + 1, modified_ms = {now} {HERE}"
        );
        let columns = "fleet, path, record, version, created, modified_ms, session, beat, lasts_ms";
        let make_record =
            format!("leafd_worker ({columns}) VALUES (?, ?, ?, 0, 0, {now}, 0, 0, 0)");
        let of = |text: String| kind.with_placeholders(&text);
        Self {
            kind,
            begin_writing: kind.begin(timeout, true),
            begin_reading: kind.begin(timeout, false),
            server: format!("SELECT {server}"),
            read_only: kind.read_only().map(|column| format!("SELECT {}", kind.text(column))),
            count: of("UPDATE leafd_worker_fleet SET changes = changes + 1 WHERE name = ?".into()),
            take_number: of("UPDATE leafd_worker_fleet SET changes = changes + 1, \
                             next_worker = next_worker + 1 WHERE name = ?"
                .into()),
            fleet: of(format!("SELECT {fleet} FROM leafd_worker_fleet WHERE name = ?")),
            make_fleet: of(kind.insert_or_nothing(
                "leafd_worker_fleet (name, changes, next_worker) VALUES (?, 0, 0)",
            )),
            make_record: of(kind.insert_or_nothing(&make_record)),
            record: of(format!("SELECT {record} FROM leafd_worker {HERE}")),
            records_between: of(format!(
                "SELECT {record} FROM leafd_worker {BETWEEN} ORDER BY path"
            )),
            paths_between: of(format!("SELECT {path} FROM leafd_worker {BETWEEN} ORDER BY path")),
            markers_between: of(format!(
                "SELECT {marker} FROM leafd_worker {BETWEEN} ORDER BY path"
            )),
            drop_marker: of(format!(
                "DELETE FROM leafd_worker {HERE} AND session = ? AND beat = ?"
            )),
            beat: of(format!("UPDATE leafd_worker SET beat = beat + 1 {HERE} AND session = ?")),
            version: of(format!("SELECT {version} FROM leafd_worker {HERE}{locked}")),
            insert: of(format!(
                "INSERT INTO leafd_worker ({columns}) VALUES (?, ?, ?, 0, ?, {now}, ?, 0, ?)"
            )),
            set: of(format!("{set} AND version = ?")),
            set_any: of(set),
            delete: of(format!("DELETE FROM leafd_worker {HERE} AND version = ?")),
        }
    }

    pub(super) fn begin(&self, writes: bool) -> &str {
        if writes { &self.begin_writing } else { &self.begin_reading }
    }

    /// As `record`, of so many paths.
    pub(super) fn records_at(&self, paths: usize) -> String {
        let some = vec!["?"; paths].join(", ");
        let all = self.record.replace("$1", "?").replace("$2", "?");
        let all = all.replace("path = ?", &format!("path IN ({some})"));
        self.kind.with_placeholders(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_where_the_database_wants_that() {
        let timeout = Duration::from_secs(2);
        let postgres = Statements::new(SqlKind::Postgres, timeout);
        assert!(postgres.set.contains("record = $1") && postgres.set.contains("version = $4"));
        assert!(postgres.records_at(2).ends_with("WHERE fleet = $1 AND path IN ($2, $3)"));
        let mysql = Statements::new(SqlKind::MySql, timeout);
        assert!(mysql.records_at(2).ends_with("WHERE fleet = ? AND path IN (?, ?)"));
    }
}
