//! The writes of the claim. The session makes each call one transaction.
//!
//! A write that makes or removes a record, or depends on what the fleet agrees on, first adds to the counter in
//! the fleet's row, which puts all of these in one order. A report changes its own rows alone, by their versions,
//! and so waits for nobody.

use super::calls::SessionCore;
use super::link::{Link, Trouble, Value};
use crate::worker::claim::name::NodeName;
use crate::worker::claim::record::{self, FleetRecord, LeafRecord};
use crate::worker::claim::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::tree;

type Outcome<T> = Result<T, Trouble>;

/// Whether a write goes through with the others of its kind one after the other.
fn is_in_line(write: &RegistryWrite) -> bool {
    match write {
        RegistryWrite::Check(key, _) => *key == Key::Fleet,
        RegistryWrite::Set(RegistryRecord::Fleet(_), _) => true,
        RegistryWrite::Set(_, version) => version.is_none(),
        RegistryWrite::Absent(_) | RegistryWrite::Create(_) | RegistryWrite::Delete(..) => true,
    }
}

/// Fails unless a statement changed a row.
const fn one(changed: u64) -> Outcome<()> {
    if changed == 0 { Err(Trouble::Conflict) } else { Ok(()) }
}

fn number<T: std::str::FromStr>(cell: Option<&String>) -> Outcome<T> {
    let read = cell.and_then(|text| text.parse().ok());
    read.ok_or_else(|| {
        let cell = cell.map_or("", String::as_str);
        let why = format!("{cell:?} in the registry's tables is not the number that leafd writes");
        Trouble::Failed(why)
    })
}

/// The counter and the next number of the fleet. None if its row was deleted.
pub(super) async fn fleet(core: &SessionCore, link: &mut Link) -> Outcome<(i64, u64)> {
    let rows = link.rows(&core.statements.fleet, &[Value::Text(&core.access.name)]).await?;
    let row = rows.first().ok_or(Trouble::Conflict)?;
    Ok((number(row.first())?, number(row.get(1))?))
}

/// Makes what the registry lacks.
pub(super) async fn prepare(core: &SessionCore, link: &mut Link) -> Outcome<()> {
    let name = Value::Text(&core.access.name);
    let fleet = FleetRecord { version: record::VERSION, layout: core.access.layout.clone() };
    let fleet = text(record::write(&fleet));
    if link.rows(&core.statements.fleet, &[name]).await?.is_empty() {
        link.change(&core.statements.make_fleet, &[name]).await?;
    }
    let values = [name, Value::Text(tree::LEAFD)];
    if link.rows(&core.statements.record, &values).await?.is_empty() {
        let values = [name, Value::Text(tree::LEAFD), Value::Text(&fleet)];
        link.change(&core.statements.make_record, &values).await?;
    }
    Ok(())
}

/// Makes a worker ID that nobody ever had.
pub(super) async fn create(
    core: &SessionCore,
    link: &mut Link,
    identity: &str,
    leaf: &LeafRecord,
) -> Outcome<NodeName> {
    let fleet_name = Value::Text(&core.access.name);
    one(link.change(&core.statements.take_number, &[fleet_name]).await?)?;
    let (created, next) = fleet(core, link).await?;
    let name = NodeName::new(identity, next.saturating_sub(1));
    let record = RegistryRecord::Leaf(name.clone(), leaf.clone());
    insert(core, link, &record, created).await?;
    Ok(name)
}

/// All or nothing.
pub(super) async fn commit(
    core: &SessionCore,
    link: &mut Link,
    writes: &[RegistryWrite],
) -> Outcome<()> {
    let mut created = 0;
    if writes.iter().any(is_in_line) {
        let name = Value::Text(&core.access.name);
        one(link.change(&core.statements.count, &[name]).await?)?;
        (created, _) = fleet(core, link).await?;
    }
    for write in writes {
        execute(core, link, write, created).await?;
    }
    Ok(())
}

async fn execute(
    core: &SessionCore,
    link: &mut Link,
    write: &RegistryWrite,
    created: i64,
) -> Outcome<()> {
    let fleet = Value::Text(&core.access.name);
    let version = |version: i32| Value::Number(i64::from(version));
    match write {
        RegistryWrite::Check(key @ Key::Live(_), expected) => {
            has(core, link, key, *expected).await?;
            // A sign of life, which only the session that made the marker can give.
            let path = tree::path(key);
            let values = [fleet, Value::Text(&path), Value::Number(core.id)];
            one(link.change(&core.statements.beat, &values).await?)
        }
        RegistryWrite::Check(key, expected) => has(core, link, key, *expected).await,
        RegistryWrite::Absent(key) => match version_of(core, link, key).await? {
            None => Ok(()),
            Some(_) => Err(Trouble::Conflict),
        },
        RegistryWrite::Create(record) => {
            // As in a tree: a child has a parent.
            if let RegistryRecord::Holder(name, _) = record
                && version_of(core, link, &Key::leaf(name)).await?.is_none()
            {
                return Err(Trouble::Conflict);
            }
            insert(core, link, record, created).await
        }
        RegistryWrite::Set(record, expected) => {
            let (path, data) = (tree::path(&record.key()), text(tree::bytes(record)));
            let mut values = vec![Value::Text(&data), fleet, Value::Text(&path)];
            values.extend(expected.map(version));
            let statement = match expected {
                Some(_) => &core.statements.set,
                None => &core.statements.set_any,
            };
            one(link.change(statement, &values).await?)
        }
        RegistryWrite::Delete(key, expected) => {
            if let Key::Leaf(name) = key
                && version_of(core, link, &Key::holder(name)).await?.is_some()
            {
                return Err(Trouble::Conflict);
            }
            let path = tree::path(key);
            let values = [fleet, Value::Text(&path), version(*expected)];
            one(link.change(&core.statements.delete, &values).await?)
        }
    }
}

async fn insert(
    core: &SessionCore,
    link: &mut Link,
    record: &RegistryRecord,
    created: i64,
) -> Outcome<()> {
    let (path, data) = (tree::path(&record.key()), text(tree::bytes(record)));
    let is_live = matches!(record, RegistryRecord::Live(..));
    let (session, lasts_ms) = if is_live { (core.id, core.lasts_ms()) } else { (0, 0) };
    let values = [
        Value::Text(&core.access.name),
        Value::Text(&path),
        Value::Text(&data),
        Value::Number(created),
        Value::Number(session),
        Value::Number(lasts_ms),
    ];
    one(link.change(&core.statements.insert, &values).await?)
}

/// The version of a record, which stays as it is until the end of the transaction.
async fn version_of(core: &SessionCore, link: &mut Link, key: &Key) -> Outcome<Option<i32>> {
    let path = tree::path(key);
    let values = [Value::Text(&core.access.name), Value::Text(&path)];
    let rows = link.rows(&core.statements.version, &values).await?;
    rows.first().map(|row| number(row.first())).transpose()
}

async fn has(core: &SessionCore, link: &mut Link, key: &Key, version: i32) -> Outcome<()> {
    match version_of(core, link, key).await? {
        Some(there) if there == version => Ok(()),
        _ => Err(Trouble::Conflict),
    }
}

/// Records are JSON.
fn text(record: Vec<u8>) -> String {
    String::from_utf8(record).unwrap_or_default()
}
