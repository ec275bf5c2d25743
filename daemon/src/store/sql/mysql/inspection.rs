//! What MySQL and MariaDB say of themselves, for `leafctl doctor`. Rights are tried by preparing
//! statements, which the server checks and does not execute.

use std::collections::HashMap;

use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};
use sqlx::{SqlSafeStr as _, SqlStr};

use super::{NO_TABLE, url};
use crate::store::inspection::{
    ColumnFacts, LooseSetting, MissingRight, OwnTable, ReplicationFacts, RightUse, StoreFacts,
    narrow,
};
use crate::store::{BoxFuture, SharedStore};

/// Statements that need a right, the right, and what needs it.
const RIGHTS: [(&str, &str, RightUse); 8] = [
    ("SELECT max_id, step FROM leaf_alloc", "SELECT on leaf_alloc", RightUse::Lease),
    ("UPDATE leaf_alloc SET max_id = 0 WHERE 1 = 0", "UPDATE on leaf_alloc", RightUse::Lease),
    ("SELECT identity FROM leafd_identity", "SELECT on leafd_identity", RightUse::Identity),
    (
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('', 1, 1)",
        "INSERT on leaf_alloc",
        RightUse::Create,
    ),
    ("SELECT max_id FROM leafd_tombstone", "SELECT on leafd_tombstone", RightUse::Create),
    (
        "INSERT INTO leafd_tombstone (biz_tag, max_id) VALUES ('', 1)",
        "INSERT on leafd_tombstone",
        RightUse::Create,
    ),
    (
        "UPDATE leafd_tombstone SET max_id = 0 WHERE 1 = 0",
        "UPDATE on leafd_tombstone",
        RightUse::Create,
    ),
    ("DELETE FROM leaf_alloc WHERE 1 = 0", "DELETE on leaf_alloc", RightUse::Delete),
];

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', \
    'version_comment', 'read_only', 'super_read_only', 'innodb_read_only', 'log_bin', \
    'sync_binlog', 'innodb_flush_log_at_trx_commit', 'wsrep_on', 'rpl_semi_sync_master_enabled', \
    'rpl_semi_sync_source_enabled')";

/// Every user may see these. MySQL has no number of replicas among them, but MariaDB does.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', \
    'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')";

const TABLES: &str = "SELECT table_name, COALESCE(engine, '') FROM information_schema.tables \
    WHERE table_schema = DATABASE() \
    AND table_name IN ('leaf_alloc', 'leafd_tombstone', 'leafd_identity')";

const COLUMNS: &str = "SELECT column_name, CAST(column_type AS CHAR), \
    CAST(character_maximum_length AS CHAR) FROM information_schema.columns \
    WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc'";

/// How many unique keys have `biz_tag` as their only column.
const UNIQUE: &str = "SELECT CAST(COUNT(*) AS CHAR) FROM (SELECT index_name \
    FROM information_schema.statistics WHERE table_schema = DATABASE() \
    AND table_name = 'leaf_alloc' AND non_unique = 0 GROUP BY index_name \
    HAVING COUNT(*) = 1 AND MAX(column_name) = 'biz_tag' AND MAX(sub_part) IS NULL) AS keys_of_tag";

pub(super) fn inspect(shared: &SharedStore) -> BoxFuture<'_, Result<StoreFacts, String>> {
    Box::pin(async move {
        let options = url::options(&shared.address, shared.password.as_ref());
        let options = options.map_err(|error| error.to_string())?;
        let facts = async {
            let mut connection = options.connect().await?;
            let facts = read(&mut connection).await?;
            connection.close().await?;
            Ok(facts)
        };
        facts.await.map_err(|error: sqlx::Error| error.to_string())
    })
}

async fn read(connection: &mut MySqlConnection) -> Result<StoreFacts, sqlx::Error> {
    sqlx::raw_sql("START TRANSACTION READ ONLY").execute(&mut *connection).await?;
    let variables = pairs(connection, VARIABLES).await?;
    let status = pairs(connection, STATUS).await?;
    let tables = pairs(connection, TABLES).await?;
    let has = |name: &str| tables.contains_key(name);
    let own = |name: &str| if has(name) { OwnTable::There } else { OwnTable::Missing };
    let mut identity = own("leafd_identity");
    if identity == OwnTable::There {
        let row = "SELECT identity FROM leafd_identity WHERE only_row = 1";
        match sqlx::raw_sql(row).fetch_optional(&mut *connection).await {
            Ok(None) => identity = OwnTable::Empty,
            Ok(Some(_)) => {}
            // The rights say that.
            Err(error) if lacks(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let has_tags = has("leaf_alloc");
    let columns = match has_tags {
        true => columns(connection, tables.get("leaf_alloc").map_or("", String::as_str)).await?,
        false => ColumnFacts::default(),
    };
    // The server refuses to prepare a write in such a transaction. Nothing that follows is executed.
    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    let missing_rights = missing_rights(connection, &tables).await?;
    Ok(StoreFacts {
        server: server(&variables),
        read_only: ["read_only", "super_read_only", "innodb_read_only"]
            .into_iter()
            .find(|name| !is_off(&variables, name))
            .map(|name| format!("{name} = {}", value(&variables, name))),
        has_tags,
        tombstones: own("leafd_tombstone"),
        identity,
        missing_rights,
        columns,
        loose: loose(&variables),
        replication: replication(&variables, &status),
        waits_with: "rpl_semi_sync_source_enabled (MariaDB: rpl_semi_sync_master_enabled) with \
                     AFTER_SYNC",
    })
}

/// The first two columns of every row, as text.
async fn pairs(
    connection: &mut MySqlConnection,
    statement: &'static str,
) -> Result<HashMap<String, String>, sqlx::Error> {
    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
    let text = |row: &sqlx::mysql::MySqlRow, column: usize| {
        row.try_get_unchecked::<Option<String>, _>(column).map(Option::unwrap_or_default)
    };
    rows.iter().map(|row| Ok((text(row, 0)?.to_lowercase(), text(row, 1)?))).collect()
}

async fn columns(
    connection: &mut MySqlConnection,
    engine: &str,
) -> Result<ColumnFacts, sqlx::Error> {
    let mut facts = ColumnFacts::default();
    for row in sqlx::raw_sql(COLUMNS).fetch_all(&mut *connection).await? {
        let text = |column: usize| row.try_get_unchecked::<Option<String>, _>(column);
        match text(0)?.unwrap_or_default().to_lowercase().as_str() {
            "max_id" => facts.max_id = text(1)?.unwrap_or_default(),
            "biz_tag" => facts.tag_chars = text(2)?.and_then(|chars| chars.parse().ok()),
            _ => {}
        }
    }
    let unique = sqlx::raw_sql(UNIQUE).fetch_one(&mut *connection).await?;
    facts.is_unique = unique.try_get_unchecked::<String, _>(0)? != "0";
    if !engine.is_empty() && !engine.eq_ignore_ascii_case("InnoDB") {
        facts.unsafe_table = format!("ENGINE={engine}");
    }
    if narrow(&facts.max_id).is_some() {
        let highest = "SELECT CAST(MAX(max_id) AS CHAR) FROM leaf_alloc";
        match sqlx::raw_sql(highest).fetch_one(&mut *connection).await {
            Ok(row) => {
                let text = row.try_get_unchecked::<Option<String>, _>(0)?;
                facts.highest = text.and_then(|text| text.parse().ok());
            }
            Err(error) if lacks(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(facts)
}

async fn missing_rights(
    connection: &mut MySqlConnection,
    tables: &HashMap<String, String>,
) -> Result<Vec<MissingRight>, sqlx::Error> {
    let mut missing: Vec<MissingRight> = Vec::new();
    for (statement, right, needed_for) in RIGHTS {
        let table = right.rsplit(' ').next().unwrap_or_default();
        let is_there = tables.contains_key(table);
        let known = missing.iter().any(|missing| missing.right == right);
        if !is_there || known {
            continue;
        }
        let statement: SqlStr = AssertSqlSafe(statement).into_sql_str();
        match connection.prepare(statement).await {
            Ok(_) => {}
            Err(error) if lacks(&error) => missing.push(MissingRight { right, needed_for }),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// Whether a statement failed for want of a right, or of a table that is hidden without one.
fn lacks(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    let error = error.try_downcast_ref::<MySqlDatabaseError>();
    error.is_some_and(|error| NO_TABLE.contains(&error.number()))
}

fn value<'a>(values: &'a HashMap<String, String>, name: &str) -> &'a str {
    values.get(name).map_or("", String::as_str)
}

/// Whether a switch is off, or this server has no such switch.
fn is_off(values: &HashMap<String, String>, name: &str) -> bool {
    let value = value(values, name);
    ["", "0", "off"].iter().any(|off| value.eq_ignore_ascii_case(off))
}

fn server(variables: &HashMap<String, String>) -> String {
    let version = value(variables, "version");
    let product = if version.to_lowercase().contains("mariadb") { "MariaDB" } else { "MySQL" };
    format!("{product} {version}")
}

fn loose(variables: &HashMap<String, String>) -> Vec<LooseSetting> {
    let mut loose = Vec::new();
    let flush = value(variables, "innodb_flush_log_at_trx_commit");
    // MariaDB's 3 syncs at each commit, too.
    if !["", "1", "3"].contains(&flush) {
        loose.push(LooseSetting {
            is: format!("innodb_flush_log_at_trx_commit = {flush}"),
            should_be: "innodb_flush_log_at_trx_commit = 1",
            loses_leases: true,
        });
    }
    let binlog = value(variables, "sync_binlog");
    if !is_off(variables, "log_bin") && binlog != "1" {
        loose.push(LooseSetting {
            is: format!("sync_binlog = {binlog}"),
            should_be: "sync_binlog = 1",
            loses_leases: false,
        });
    }
    loose
}

fn replication(
    variables: &HashMap<String, String>,
    status: &HashMap<String, String>,
) -> ReplicationFacts {
    let number = |name: &str| value(status, name).parse::<u64>().ok();
    let waiting = number("rpl_semi_sync_source_clients").or(number("rpl_semi_sync_master_clients"));
    let waits = ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"]
        .iter()
        .any(|name| !is_off(variables, name));
    let attached = number("slaves_connected");
    if is_off(variables, "log_bin") || !is_off(variables, "wsrep_on") {
        // Nothing to copy; and Galera's nodes agree on each commit.
        return ReplicationFacts::Alone;
    }
    match (waits, attached, waiting) {
        (false, None, _) => ReplicationFacts::Unseen,
        (false, Some(0), _) | (true, Some(0), None | Some(0)) => ReplicationFacts::Alone,
        (false, Some(attached), _) => ReplicationFacts::Behind(attached),
        // Semi-synchronous replication falls back to asynchronous without a client.
        (true, Some(attached), Some(0)) => ReplicationFacts::Behind(attached),
        (true, _, waiting) => ReplicationFacts::Waits(waiting.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[(&str, &str)]) -> HashMap<String, String> {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn settings_that_lose_leases_are_named_with_their_values() {
        let of = |values: &[(&str, &str)]| -> Vec<_> {
            loose(&map(values)).into_iter().map(|loose| (loose.is, loose.loses_leases)).collect()
        };
        let flush = "innodb_flush_log_at_trx_commit";
        assert_eq!(of(&[(flush, "2")]), [(format!("{flush} = 2"), true)]);
        assert_eq!(of(&[(flush, "3"), ("sync_binlog", "0"), ("log_bin", "OFF")]), []);
        let with_log = of(&[(flush, "1"), ("sync_binlog", "0"), ("log_bin", "ON")]);
        assert_eq!(with_log, [("sync_binlog = 0".to_owned(), false)]);
    }

    #[test]
    fn replication_is_judged_by_who_is_attached_and_whether_commits_wait() {
        let semi = ("rpl_semi_sync_master_enabled", "ON");
        let log = ("log_bin", "ON");
        let of = |variables: &[(&str, &str)], status: &[(&str, &str)]| {
            replication(&map(variables), &map(status))
        };
        let attached = |count: &'static str| ("slaves_connected", count);
        let clients = |count: &'static str| ("rpl_semi_sync_master_clients", count);
        assert_eq!(of(&[], &[attached("0")]), ReplicationFacts::Alone);
        assert_eq!(of(&[log], &[attached("0")]), ReplicationFacts::Alone);
        assert_eq!(of(&[log], &[attached("2")]), ReplicationFacts::Behind(2));
        assert_eq!(of(&[log, semi], &[attached("2"), clients("0")]), ReplicationFacts::Behind(2));
        assert_eq!(of(&[log, semi], &[attached("2"), clients("1")]), ReplicationFacts::Waits(1));
        assert_eq!(of(&[log], &[]), ReplicationFacts::Unseen);
        assert_eq!(of(&[log, ("wsrep_on", "ON")], &[attached("1")]), ReplicationFacts::Alone);
    }
}
