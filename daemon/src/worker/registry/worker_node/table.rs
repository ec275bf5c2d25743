//! The table in MySQL or MariaDB. Every call opens a connection if there is none, and has a time limit.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::messages::{NodeAction, NodeOutcome, NodeOwner, NodeRow};
use super::pace::NodeSurvey;
use crate::config::Config;
use crate::store::SharedOptions;

/// `TYPE` of an instance that is no container, as Baidu numbers them.
const ACTUAL: u32 = 2;

/// The longest `HOST_NAME`, in characters.
const MAX_HOST: usize = 64;

/// What `PORT` begins with. Baidu's own rows have a port or a time there.
const OURS: &str = "leafd-";

/// What `PORT` ends with before the row is in use.
const UNUSED: &str = "-settling";

/// The pace is that of this time (ms), or of a longer one.
const PACE_MS: u64 = 30 * 24 * 3_600_000;

/// A server closes a silent connection after this.
const SILENCE: Duration = Duration::from_secs(60);

/// Codes of MySQL and MariaDB: a key is there already; a table is missing; a right is missing.
const DUPLICATE: u16 = 1062;
const NO_TABLE: u16 = 1146;
const NO_RIGHT: [u16; 2] = [1142, 1143];

/// Where the table is, and how to get there. Prints without a password.
#[derive(Debug, Clone)]
pub(crate) struct WorkerNodeAccess {
    described: String,
    options: Box<MySqlConnectOptions>,
    /// As the configuration has it: letters, digits, `_` and `$`.
    table: String,
    pub(crate) timeout: Duration,
}

impl fmt::Display for WorkerNodeAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} in {}", self.table, self.described)
    }
}

impl WorkerNodeAccess {
    /// As configured; `credentials` is the folder in which the service manager puts secrets.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the file of the password.
    pub(crate) fn new(config: &Config, credentials: Option<&Path>) -> Result<Self, String> {
        let address = config.worker_node_address().map_err(|problem| problem.to_string())?;
        let password = config.worker_node_password(credentials);
        let password = password.map_err(|error| error.to_string())?;
        let options = address.options(password.as_ref()).map_err(|error| error.to_string())?;
        let SharedOptions::MySql(options) = options else {
            return Err("worker-node.url: is no MySQL or MariaDB".to_owned());
        };
        let (section, described) = (&config.worker_node, address.to_string());
        let (table, timeout) = (section.table.clone(), section.timeout);
        Ok(Self { described, options: Box::new(options), table, timeout })
    }

    /// What the worker file calls it: a row is an instance's own in this table of this database alone.
    pub(crate) fn name(&self) -> String {
        let place = self.described.split_once('@').map_or(&*self.described, |(_, place)| place);
        format!("worker-node {} in {place}", self.table)
    }
}

pub(crate) struct WorkerNodeTable {
    access: WorkerNodeAccess,
    /// Of this instance, for readers of the table.
    host: String,
    connection: Option<MySqlConnection>,
}

fn port(nonce: &str) -> String {
    format!("{OURS}{nonce}")
}

impl WorkerNodeTable {
    pub(crate) fn new(access: WorkerNodeAccess, host: &str) -> Self {
        // For readers; whatever the column's character set is, it has these.
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
        let host = host.chars().map(plain).take(MAX_HOST).collect();
        Self { access, host, connection: None }
    }

    /// Executes what the state machine wants of the database.
    pub(crate) async fn execute(&mut self, action: &NodeAction) -> NodeOutcome {
        let limit = self.access.timeout;
        let outcome = tokio::time::timeout(limit, self.call(action)).await;
        // A number of the database's choice is never there already: another key is.
        let has_number = !matches!(action, NodeAction::Insert { worker: None, .. });
        let why = match outcome {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(error)) if number(&error) == Some(DUPLICATE) && has_number => {
                return NodeOutcome::Taken;
            }
            Ok(Err(error)) => {
                let why = format!("{}: {}", self.access, self.explain(&error));
                match number(&error) {
                    Some(NO_TABLE) => return NodeOutcome::NoTable(why),
                    // Some rights count for new connections alone. Otherwise the connection is in order.
                    Some(code) if self.connection.is_some() && !NO_RIGHT.contains(&code) => {
                        return NodeOutcome::Failed(why);
                    }
                    _ => why,
                }
            }
            Err(_) => format!("{}: no answer within {limit:?} (worker-node.timeout)", self.access),
        };
        // What became of the call is not known, and the connection may still be busy with it.
        self.connection = None;
        NodeOutcome::Failed(why)
    }

    fn explain(&self, error: &sqlx::Error) -> String {
        let table = &self.access.table;
        match number(error) {
            Some(NO_TABLE) => format!("{error}; `leafd schema worker-node` prints the table"),
            // Of a table that is not there, the server says the same to whoever has no rights.
            Some(code) if NO_RIGHT.contains(&code) => format!(
                "{error}; leafd needs GRANT SELECT, INSERT, UPDATE ON {table}, and \
                 `leafd schema worker-node` prints the table"
            ),
            _ => error.to_string(),
        }
    }

    async fn call(&mut self, action: &NodeAction) -> Result<NodeOutcome, sqlx::Error> {
        let (table, host) = (format!("`{}`", self.access.table), self.host.clone());
        let connection = match &mut self.connection {
            Some(connection) => connection,
            place @ None => place.insert(open(&self.access).await?),
        };
        Ok(match action {
            NodeAction::Survey => NodeOutcome::Surveyed(survey(connection, &table).await?),
            NodeAction::Insert { nonce, worker } => {
                let port = port(nonce) + UNUSED;
                NodeOutcome::Inserted(insert(connection, &table, *worker, (&host, &port)).await?)
            }
            NodeAction::PutBack(NodeRow { worker, nonce }) => {
                let row = (&*host, &*port(nonce));
                NodeOutcome::Inserted(insert(connection, &table, Some(*worker), row).await?)
            }
            NodeAction::Find { nonce, above } => {
                let text = format!(
                    "SELECT CAST(ID AS CHAR) FROM {table} WHERE ID > ? AND PORT = ? LIMIT 1 FOR UPDATE"
                );
                let query = sqlx::query(AssertSqlSafe(text)).bind(above);
                let row = query.bind(port(nonce) + UNUSED).fetch_optional(connection).await?;
                NodeOutcome::Found(row.map(|row| unsigned(&row, 0)).transpose()?)
            }
            NodeAction::Look(row) => {
                let text = format!("SELECT HOST_NAME, PORT FROM {table} WHERE ID = ? FOR UPDATE");
                let query = sqlx::query(AssertSqlSafe(text)).bind(row.worker);
                let found = query.fetch_optional(connection).await?;
                let found = match found {
                    Some(found) => Some((found.try_get(0)?, found.try_get(1)?)),
                    None => None,
                };
                NodeOutcome::Owned(owner(row, found))
            }
            NodeAction::Settle(NodeRow { worker, nonce }) => {
                let own = port(nonce);
                let expected = ["PORT IN (?, ?)", &own, &(own.clone() + UNUSED)];
                let changed = change(connection, &table, *worker, expected, (&host, &own));
                NodeOutcome::Changed(changed.await?)
            }
            NodeAction::Report(NodeRow { worker, nonce }) => {
                let own = port(nonce);
                let expected = ["PORT IN (?, ?)", &own, &own];
                let changed = change(connection, &table, *worker, expected, (&host, &own));
                NodeOutcome::Changed(changed.await?)
            }
            NodeAction::TakeBack(NodeRow { worker, nonce }) => {
                let (own, from, to) = (port(nonce), format!("{OURS}%"), format!("%{UNUSED}"));
                let expected = ["PORT LIKE ? AND PORT LIKE ?", &from, &to];
                let changed = change(connection, &table, *worker, expected, (&host, &own));
                NodeOutcome::Changed(changed.await?)
            }
            NodeAction::Pause(_) => NodeOutcome::Paused,
        })
    }

    /// Servers log a connection that ends without a goodbye.
    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = tokio::time::timeout(self.access.timeout, connection.close()).await;
        }
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// A number as text: `ID` is signed in Baidu's table, and others have made it unsigned.
fn unsigned(row: &MySqlRow, at: usize) -> Result<u64, sqlx::Error> {
    let text: String = row.try_get(at)?;
    text.parse().map_err(|_| sqlx::Error::Decode(format!("{text:?} is no worker ID").into()))
}

async fn open(access: &WorkerNodeAccess) -> Result<MySqlConnection, sqlx::Error> {
    let lock_wait = (access.timeout.as_millis() * 4 / 5 / 1000).max(1);
    let silence = SILENCE.max(access.timeout * 3).as_secs();
    let session = format!(
        "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {lock_wait}, \
         SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = {silence}, \
         SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')"
    );
    let mut connection = access.options.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(session)).execute(&mut connection).await?;
    // Users with more rights could write there all the same, where nobody else would see it.
    let read_only = sqlx::query("SELECT CAST(@@GLOBAL.read_only AS CHAR)");
    let read_only: String = read_only.fetch_one(&mut connection).await?.try_get(0)?;
    if !["0", "OFF"].contains(&&*read_only) {
        return Err(sqlx::Error::Protocol("the server is read-only".to_owned()));
    }
    Ok(connection)
}

async fn insert(
    connection: &mut MySqlConnection,
    table: &str,
    worker: Option<u64>,
    (host, port): (&str, &str),
) -> Result<u64, sqlx::Error> {
    // NULL is a number of the database's choice.
    let text = format!(
        "INSERT INTO {table} (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) \
         VALUES (?, ?, ?, ?, CURDATE(), NOW(), NOW())"
    );
    let query = sqlx::query(AssertSqlSafe(text)).bind(worker);
    let done = query.bind(host).bind(port).bind(ACTUAL).execute(connection).await?;
    Ok(worker.unwrap_or(done.last_insert_id()))
}

/// Writes a row that is as expected, and says whether it was.
async fn change(
    connection: &mut MySqlConnection,
    table: &str,
    worker: u64,
    [expected, first, second]: [&str; 3],
    (host, port): (&str, &str),
) -> Result<bool, sqlx::Error> {
    let text = format!(
        "UPDATE {table} SET HOST_NAME = ?, PORT = ?, MODIFIED = NOW() WHERE ID = ? AND {expected}"
    );
    let query = sqlx::query(AssertSqlSafe(text)).bind(host).bind(port);
    // Counts what was found, not what changed.
    let done = query.bind(worker).bind(first).bind(second).execute(connection).await?;
    Ok(done.rows_affected() > 0)
}

fn owner(row: &NodeRow, found: Option<(String, String)>) -> NodeOwner {
    match found {
        None => NodeOwner::Nobody,
        Some((_, port)) if port == self::port(&row.nonce) => NodeOwner::Ours,
        Some((_, port)) if port.starts_with(OURS) && port.ends_with(UNUSED) => NodeOwner::Settling,
        Some((host, port)) => NodeOwner::Other(format!("{host} ({port})")),
    }
}

async fn survey(connection: &mut MySqlConnection, table: &str) -> Result<NodeSurvey, sqlx::Error> {
    let text = format!("SELECT CAST(GREATEST(COALESCE(MAX(ID), 0), 0) AS CHAR) FROM {table}");
    let row = sqlx::query(AssertSqlSafe(text)).fetch_one(&mut *connection).await?;
    let highest = unsigned(&row, 0)?;
    let mut earlier = None;
    let mut back = 1000;
    // Without an index on its time, a row of a month ago is found by number.
    loop {
        let text = format!(
            "SELECT CAST(ID AS CHAR), \
             CAST(GREATEST(COALESCE(TIMESTAMPDIFF(SECOND, CREATED, NOW()), 0), 0) AS CHAR) \
             FROM {table} WHERE ID >= ? ORDER BY ID LIMIT 1"
        );
        let from = highest.saturating_sub(back);
        let query = sqlx::query(AssertSqlSafe(text)).bind(from);
        let Some(row) = query.fetch_optional(&mut *connection).await? else { break };
        let (number, ago_ms) = (unsigned(&row, 0)?, unsigned(&row, 1)?.saturating_mul(1000));
        earlier = Some((number, ago_ms));
        if ago_ms >= PACE_MS || from == 0 {
            break;
        }
        back = back.saturating_mul(4);
    }
    Ok(NodeSurvey { highest, earlier })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_another_name_in_another_database_and_the_same_one_for_another_user() {
        let name = |url: &str| {
            let toml =
                format!("[worker]\nregistry = \"worker-node\"\n[worker-node]\nurl = \"{url}\"");
            WorkerNodeAccess::new(&toml::from_str(&toml).unwrap(), None).unwrap().name()
        };
        let own = name("mysql://leaf@db/uid");
        assert_eq!(own, "worker-node WORKER_NODE in db:3306/uid");
        assert_eq!(name("mysql://other@db/uid"), own);
        assert_ne!(name("mysql://leaf@db2/uid"), own);
        assert_ne!(name("mysql://leaf@db/uid2"), own);
    }

    #[test]
    fn a_row_is_ours_settling_or_anothers_by_what_stands_for_its_port() {
        let nonce = "0123456789abcdef0123456789abcdef";
        let row = NodeRow { worker: 1, nonce: nonce.to_owned() };
        let of = |port: String| owner(&row, Some(("host".to_owned(), port)));
        assert_eq!(owner(&row, None), NodeOwner::Nobody);
        assert_eq!(of(port(nonce)), NodeOwner::Ours);
        assert_eq!(of(port("f") + UNUSED), NodeOwner::Settling);
        for other in [port("f"), "8080".to_owned(), "1700000000000-41234".to_owned()] {
            assert_eq!(of(other.clone()), NodeOwner::Other(format!("host ({other})")));
        }
        assert!((port(nonce) + UNUSED).len() <= 64, "PORT has 64 characters");
    }
}
