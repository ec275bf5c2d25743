//! What PostgreSQL says of itself, for `leafctl doctor`.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::url;
use crate::store::inspection::{
    ColumnFacts, LooseSetting, MissingRight, OwnTable, ReplicationFacts, RightUse, StoreFacts,
    narrow,
};
use crate::store::{BoxFuture, SharedStore};

/// Tables, rights and what needs them.
const RIGHTS: [(&str, &str, &str, RightUse); 8] = [
    ("leaf_alloc", "SELECT", "SELECT on leaf_alloc", RightUse::Lease),
    ("leaf_alloc", "UPDATE", "UPDATE on leaf_alloc", RightUse::Lease),
    ("leafd_identity", "SELECT", "SELECT on leafd_identity", RightUse::Identity),
    ("leaf_alloc", "INSERT", "INSERT on leaf_alloc", RightUse::Create),
    ("leafd_tombstone", "SELECT", "SELECT on leafd_tombstone", RightUse::Create),
    ("leafd_tombstone", "INSERT", "INSERT on leafd_tombstone", RightUse::Create),
    ("leafd_tombstone", "UPDATE", "UPDATE on leafd_tombstone", RightUse::Create),
    ("leaf_alloc", "DELETE", "DELETE on leaf_alloc", RightUse::Delete),
];

/// Inside a transaction, the setting for the next one says what the server's default is.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', \
    'fsync', 'full_page_writes', 'synchronous_standby_names', 'default_transaction_read_only') \
    UNION ALL SELECT 'in_recovery', pg_is_in_recovery()::text \
    UNION ALL SELECT 'standbys', count(*)::text FROM pg_stat_replication";

const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, NULL), \
    CASE WHEN atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND atttypmod > 4 \
    THEN (atttypmod - 4)::text END FROM pg_attribute \
    WHERE attrelid = to_regclass('leaf_alloc') AND attnum > 0 AND NOT attisdropped";

const UNIQUE: &str = "SELECT 'unique', count(*)::text FROM pg_index JOIN pg_attribute \
    ON attrelid = indrelid AND attnum = indkey[0] \
    WHERE indrelid = to_regclass('leaf_alloc') AND indisunique AND indisvalid \
    AND indnkeyatts = 1 AND indpred IS NULL AND attname = 'biz_tag' \
    UNION ALL SELECT 'unlogged', (relpersistence <> 'p')::text FROM pg_class \
    WHERE oid = to_regclass('leaf_alloc')";

pub(super) fn inspect(shared: &SharedStore) -> BoxFuture<'_, Result<StoreFacts, String>> {
    Box::pin(async move {
        let options = url::options(&shared.address, shared.password.as_ref());
        let options = options.map_err(|error| error.to_string())?;
        let facts = async {
            let mut connection = options.connect().await?;
            let facts = read(&mut connection, shared.limits.timeout).await?;
            connection.close().await?;
            Ok(facts)
        };
        facts.await.map_err(|error: sqlx::Error| error.to_string())
    })
}

async fn read(connection: &mut PgConnection, timeout: Duration) -> Result<StoreFacts, sqlx::Error> {
    let timeout = timeout.as_millis().max(1);
    let begin = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}");
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *connection).await?;
    let settings = pairs(connection, SETTINGS).await?;
    let (tables, missing_rights) = rights(connection).await?;
    let has = |name: &str| tables.contains(&name);
    let own = |name: &str| if has(name) { OwnTable::There } else { OwnTable::Missing };
    let may_read_identity = !missing_rights.iter().any(|missing| {
        let MissingRight { needed_for, .. } = missing;
        *needed_for == RightUse::Identity
    });
    let mut identity = own("leafd_identity");
    if identity == OwnTable::There && may_read_identity {
        let row = "SELECT identity::text FROM leafd_identity WHERE only_row = 1";
        if sqlx::raw_sql(row).fetch_optional(&mut *connection).await?.is_none() {
            identity = OwnTable::Empty;
        }
    }
    let has_tags = has("leaf_alloc");
    let may_select = !missing_rights.iter().any(|missing| missing.right == "SELECT on leaf_alloc");
    let columns = match has_tags {
        true => columns(connection, may_select).await?,
        false => ColumnFacts::default(),
    };
    Ok(StoreFacts {
        server: format!("PostgreSQL {}", value(&settings, "server_version")),
        read_only: read_only(&settings),
        has_tags,
        tombstones: own("leafd_tombstone"),
        identity,
        missing_rights,
        columns,
        loose: loose(&settings),
        replication: replication(&settings),
        waits_with: "synchronous_standby_names, such as ANY 1 (a, b)",
    })
}

fn text(row: &PgRow, column: usize) -> Result<Option<String>, sqlx::Error> {
    row.try_get_unchecked(column)
}

/// The first two columns of every row, as text.
async fn pairs(
    connection: &mut PgConnection,
    statement: &'static str,
) -> Result<HashMap<String, String>, sqlx::Error> {
    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
    let pair = |row| Ok((text(row, 0)?.unwrap_or_default(), text(row, 1)?.unwrap_or_default()));
    rows.iter().map(pair).collect()
}

/// The tables that the user's search path leads to, and the rights that the user lacks on them.
async fn rights(
    connection: &mut PgConnection,
) -> Result<(Vec<&'static str>, Vec<MissingRight>), sqlx::Error> {
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    for (table, privilege, right, needed_for) in RIGHTS {
        // NULL if there is no such table.
        let ask =
            format!("SELECT has_table_privilege(to_regclass('{table}'), '{privilege}')::text");
        let row = sqlx::raw_sql(AssertSqlSafe(ask)).fetch_one(&mut *connection).await?;
        let Some(has) = text(&row, 0)? else { continue };
        if !tables.contains(&table) {
            tables.push(table);
        }
        if has != "true" {
            missing.push(MissingRight { right, needed_for });
        }
    }
    Ok((tables, missing))
}

async fn columns(
    connection: &mut PgConnection,
    may_select: bool,
) -> Result<ColumnFacts, sqlx::Error> {
    let mut facts = ColumnFacts::default();
    for row in sqlx::raw_sql(COLUMNS).fetch_all(&mut *connection).await? {
        match text(&row, 0)?.unwrap_or_default().as_str() {
            "max_id" => facts.max_id = text(&row, 1)?.unwrap_or_default(),
            "biz_tag" => facts.tag_chars = text(&row, 2)?.and_then(|chars| chars.parse().ok()),
            _ => {}
        }
    }
    let table = pairs(connection, UNIQUE).await?;
    facts.is_unique = value(&table, "unique") != "0";
    if value(&table, "unlogged") == "true" {
        facts.unsafe_table = "UNLOGGED or TEMPORARY".to_owned();
    }
    if narrow(&facts.max_id).is_some() && may_select {
        let highest = "SELECT max(max_id)::text FROM leaf_alloc";
        let row = sqlx::raw_sql(highest).fetch_one(&mut *connection).await?;
        facts.highest = text(&row, 0)?.and_then(|text| text.parse().ok());
    }
    Ok(facts)
}

fn value<'a>(values: &'a HashMap<String, String>, name: &str) -> &'a str {
    values.get(name).map_or("", String::as_str)
}

fn read_only(settings: &HashMap<String, String>) -> Option<String> {
    if value(settings, "in_recovery") == "true" {
        return Some("it is a standby (pg_is_in_recovery)".to_owned());
    }
    let is_on = value(settings, "default_transaction_read_only") == "on";
    is_on.then(|| "default_transaction_read_only = on".to_owned())
}

fn loose(settings: &HashMap<String, String>) -> Vec<LooseSetting> {
    [("fsync", "fsync = on"), ("full_page_writes", "full_page_writes = on")]
        .into_iter()
        .filter(|(name, _)| value(settings, name) == "off")
        .map(|(name, should_be)| LooseSetting {
            is: format!("{name} = off"),
            should_be,
            loses_leases: true,
        })
        .collect()
}

fn replication(settings: &HashMap<String, String>) -> ReplicationFacts {
    let standbys = value(settings, "standbys").parse().unwrap_or(0);
    match (standbys, value(settings, "synchronous_standby_names")) {
        (0, _) => ReplicationFacts::Alone,
        (standbys, "") => ReplicationFacts::Behind(standbys),
        (standbys, _) => ReplicationFacts::Waits(standbys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[(&str, &str)]) -> HashMap<String, String> {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn settings_are_judged_by_their_values() {
        let off = map(&[("fsync", "off"), ("full_page_writes", "on")]);
        let is: Vec<_> = loose(&off).into_iter().map(|loose| loose.is).collect();
        assert_eq!(is, ["fsync = off"]);
        assert_eq!(read_only(&off), None);
        let recovery = read_only(&map(&[("in_recovery", "true")])).unwrap();
        assert!(recovery.contains("standby"));
        let fenced = read_only(&map(&[("default_transaction_read_only", "on")])).unwrap();
        assert!(fenced.contains("default_transaction_read_only"));
    }

    #[test]
    fn standbys_are_behind_unless_commits_wait_for_one() {
        let of = |standbys: &str, names: &str| {
            replication(&map(&[("standbys", standbys), ("synchronous_standby_names", names)]))
        };
        assert_eq!(of("0", ""), ReplicationFacts::Alone);
        assert_eq!(of("2", ""), ReplicationFacts::Behind(2));
        assert_eq!(of("2", "ANY 1 (a, b)"), ReplicationFacts::Waits(2));
    }
}
