//! What is read of the table: names, markers, records.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

use super::calls::{SessionCore, lock};
use super::link::{Link, Trouble, Value};
use super::markers::Beat;
use crate::worker::claim::name::NodeName;
use crate::worker::claim::record;
use crate::worker::claim::view::{Versioned, WorkerEntry};
use crate::worker::claim::write::Key;
use crate::worker::registry::{Found, FoundAt, tree};

/// From so many records on, all of a folder are read.
const MOST_NAMED: usize = 64;

/// A record is written every 3 s, which reaches the end of this in a hundred years.
const VERSIONS: std::ops::Range<i32> = 0..1 << 30;

/// Behind the last path of a folder.
const AFTER: char = '0';

impl SessionCore {
    pub(super) async fn names(
        &self,
        link: &mut Link,
        folder: &str,
    ) -> Result<Vec<NodeName>, Trouble> {
        let (first, last) = (format!("{folder}/"), format!("{folder}{AFTER}"));
        let values = [Value::Text(&self.access.name), Value::Text(&first), Value::Text(&last)];
        let rows = link.rows(&self.statements.paths_between, &values).await?;
        Ok(in_order(rows.iter().filter_map(|row| row.first()), folder))
    }

    /// Those who live. Removes the markers of those who have gone.
    pub(super) async fn live(&self, link: &mut Link) -> Result<Vec<NodeName>, Trouble> {
        let folder = tree::TEMPORARY;
        let name = Value::Text(&self.access.name);
        let (first, last) = (format!("{folder}/"), format!("{folder}{AFTER}"));
        let values = [name, Value::Text(&first), Value::Text(&last)];
        let began_ms = self.environment.boot_ms();
        let rows = link.rows(&self.statements.markers_between, &values).await?;
        let times = (began_ms, self.environment.boot_ms());
        let mut markers: Vec<_> = rows.iter().filter_map(|row| marker(row)).collect();
        let mut gone = lock(&self.markers).see(times, &markers);
        gone.retain(|(_, beat)| beat.session != self.id);
        for (path, beat) in gone {
            let (session, number) = (Value::Number(beat.session), Value::Number(beat.beat));
            let values = [name, Value::Text(&path), session, number];
            if link.change(&self.statements.drop_marker, &values).await? > 0 {
                markers.retain(|(other, _)| *other != path);
            }
        }
        Ok(in_order(markers.iter().map(|(path, _)| path), folder))
    }

    /// The records at these paths that are there.
    pub(super) async fn records(
        &self,
        link: &mut Link,
        folder: &str,
        paths: Vec<String>,
    ) -> Result<HashMap<String, Row>, Trouble> {
        let name = Value::Text(&self.access.name);
        let (first, last) = (format!("{folder}/"), format!("{folder}{AFTER}"));
        let rows = match paths.last() {
            None => Vec::new(),
            Some(_) if paths.len() > MOST_NAMED => {
                let values = [name, Value::Text(&first), Value::Text(&last)];
                link.rows(&self.statements.records_between, &values).await?
            }
            Some(again) => {
                // Few lengths, so that a connection keeps few prepared statements.
                let length = paths.len().next_power_of_two();
                let fill = std::iter::repeat_n(again, length - paths.len());
                let some = paths.iter().chain(fill).map(|path| Value::Text(path));
                let values: Vec<_> = std::iter::once(name).chain(some).collect();
                link.rows(&self.statements.records_at(length), &values).await?
            }
        };
        rows.into_iter().map(|row| Row::read(row).map(|row| (row.path.clone(), row))).collect()
    }

    pub(super) async fn each<T: DeserializeOwned>(
        &self,
        link: &mut Link,
        folder: &str,
        names: Vec<NodeName>,
        key: fn(&NodeName) -> Key,
    ) -> Result<FoundAt<T>, Trouble> {
        let paths = names.iter().map(|name| tree::path(&key(name))).collect();
        let rows = self.records(link, folder, paths).await?;
        let found = names.into_iter().filter_map(|name| {
            let row = rows.get(&tree::path(&key(&name)))?;
            Some((name, row.versioned()))
        });
        Ok(found.collect())
    }

    pub(super) async fn entries(
        &self,
        link: &mut Link,
        names: Vec<NodeName>,
    ) -> Result<Vec<WorkerEntry>, Trouble> {
        let both = |name: &NodeName| [Key::leaf(name), Key::holder(name)];
        let paths = names.iter().flat_map(both).map(|key| tree::path(&key)).collect();
        // In one statement, so that the two records of a worker ID belong together.
        let rows = self.records(link, tree::FOREVER, paths).await?;
        let entries = names.into_iter().filter_map(|name| {
            let [leaf, holder] = both(&name).map(|key| rows.get(&tree::path(&key)));
            let (leaf, holder) = (leaf?.versioned(), holder.map(Row::versioned));
            Some(WorkerEntry { name, leaf, holder })
        });
        Ok(entries.collect())
    }
}

/// A row with a record.
#[derive(Debug)]
pub(super) struct Row {
    path: String,
    record: String,
    version: i32,
    created: i64,
    modified_ms: i64,
}

impl Row {
    pub(super) fn read(cells: Vec<String>) -> Result<Self, Trouble> {
        let read = || {
            let [path, record, version, created, modified_ms] = cells.as_slice() else {
                return None;
            };
            let version = version.parse().ok().filter(|version| VERSIONS.contains(version))?;
            let created = created.parse().ok()?;
            let modified_ms = modified_ms.parse().ok()?;
            let (path, record) = (path.clone(), record.clone());
            Some(Self { path, record, version, created, modified_ms })
        };
        read().ok_or_else(|| {
            let why = format!(
                "{cells:?} in leafd_worker (path, record, version, created, modified_ms) is not a row \
                 that leafd writes; delete it, or set it right"
            );
            Trouble::Failed(why)
        })
    }

    pub(super) fn versioned<T: DeserializeOwned>(&self) -> Found<T> {
        Versioned {
            value: record::read(self.record.as_bytes()),
            version: self.version,
            created: self.created,
            // Each write has another version too.
            modified: self.modified_ms,
            modified_ms: u64::try_from(self.modified_ms).unwrap_or(0),
        }
    }
}

/// A marker that somebody has changed lasts for ever: its instance may live.
fn marker(row: &[String]) -> Option<(String, Beat)> {
    let [path, session, beat, lasts_ms] = row else { return None };
    let beat = Beat {
        session: session.parse().unwrap_or(0),
        beat: beat.parse().unwrap_or(0),
        lasts_ms: lasts_ms.parse().unwrap_or(u64::MAX),
    };
    Some((path.clone(), beat))
}

/// The names among the paths of a folder. Below a worker ID is the record of its holder.
fn in_order<'a>(paths: impl Iterator<Item = &'a String>, folder: &str) -> Vec<NodeName> {
    let name = |path: &'a String| NodeName::parse(path.strip_prefix(folder)?.strip_prefix('/')?);
    let mut names: Vec<_> = paths.filter_map(name).collect();
    names.sort_unstable();
    names
}
