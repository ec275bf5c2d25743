//! The calls about tags. Reading asks the databases that work, and merges what they say. Making,
//! deleting and changing a tag needs all of them, so that no database lacks what the others have.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::asking::common;
use super::{Several, lock};
use crate::ids::{BizTag, MAX_END};
use crate::store::{CreatedTag, DeletedTag, NewTag, Row, StoreError};

/// Minimum interval between log lines about tags that some databases lack.
const TELL_AGAIN: Duration = Duration::from_secs(600);

/// One outcome for each database that was asked, with its place in the list.
type Outcomes<T> = Vec<(usize, Result<T, StoreError>)>;

/// What the databases say of one tag, as one row: the furthest position, and the rest as the first has it.
fn merged(rows: impl IntoIterator<Item = Row>) -> Option<Row> {
    rows.into_iter().reduce(|first, next| {
        let further = next.max_id.get() > first.max_id.get();
        let max_id = if further { next.max_id } else { first.max_id };
        Row { max_id, ..first }
    })
}

/// A database failed without which tags cannot be changed.
fn needs_all(error: StoreError) -> StoreError {
    match error {
        StoreError::Down(why) => StoreError::Busy(format!(
            "making, deleting and changing tags needs all databases of the store: {why}. If one is gone \
             for good, remove it from store.urls on every host, and restart leafd there"
        )),
        error => error,
    }
}

/// The rows of several databases, in byte order of their tags.
fn merged_rows(pages: impl IntoIterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut by_tag: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in pages.into_iter().flatten() {
        by_tag.entry(row.tag.clone()).or_default().push(row);
    }
    by_tag.into_values().filter_map(merged).collect()
}

impl Several {
    /// The values of those that answered, and the failures of the others; an error if nobody answered.
    fn answers<T>(&self, outcomes: Outcomes<T>) -> Result<Vec<(usize, T)>, StoreError> {
        let (mut answers, mut failures) = (Vec::new(), Vec::new());
        for (index, outcome) in outcomes {
            match outcome {
                Ok(value) => answers.push((index, value)),
                Err(error) => failures.push(error),
            }
        }
        if answers.is_empty() { Err(common(failures)) } else { Ok(answers) }
    }

    pub(super) async fn merged_page(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let pages = self.answers(self.each(false, |store| store.page(after, limit)).await)?;
        // What a database has beyond its page comes after the whole page, so the first rows of all pages
        // are the first of all databases.
        let mut rows = merged_rows(pages.into_iter().map(|(_, page)| page));
        rows.truncate(limit);
        Ok(rows)
    }

    pub(super) async fn find_rows(&self, tags: &[BizTag]) -> Result<Vec<Row>, StoreError> {
        // Older than every row that is read below, so that a lease meanwhile is no loss.
        let marks: HashMap<BizTag, Vec<u64>> = {
            let marks = lock(&self.marks);
            tags.iter().filter_map(|tag| Some((tag.clone(), marks.get(tag)?.clone()))).collect()
        };
        let pages = self.answers(self.each(false, |store| store.find(tags)).await)?;
        for (index, rows) in &pages {
            for row in rows {
                let Ok(tag) = BizTag::new(&row.tag) else { continue };
                let mark = marks.get(&tag).and_then(|marks| marks.get(*index)).copied();
                let here = row.max_id.natural();
                match mark {
                    Some(mark) if here < mark => self.repair(*index, &tag, mark).await,
                    _ => self.note_mark(&tag, *index, here),
                }
            }
        }
        self.tell_missing(&pages);
        Ok(merged_rows(pages.into_iter().map(|(_, rows)| rows)))
    }

    /// Moves a row forward that has lost leases, if it still is behind.
    async fn repair(&self, index: usize, tag: &BizTag, mark: u64) {
        let Some(store) = self.stores.get(index) else { return };
        match store.raise(tag, mark).await {
            Ok(Some(found)) => {
                self.tell_lost(index, tag, mark);
                tracing::error!(
                    tag = tag.as_str(),
                    found,
                    mark,
                    "the row's max_id went backwards to {found}, below {mark} which this host has \
                     seen; leafd moved it forward, so this host repeats nothing. Was a backup \
                     restored, did a failover lose writes, or was the row edited? IDs that other \
                     hosts leased from this database since then may come twice"
                );
            }
            Ok(None) => {}
            Err(error) => self.note(index, Some(&error), false),
        }
    }

    /// Says now and then that some of the databases lack a tag that others have.
    fn tell_missing(&self, pages: &[(usize, Vec<Row>)]) {
        let all: BTreeMap<&str, usize> =
            pages.iter().flat_map(|(_, rows)| rows).fold(BTreeMap::new(), |mut all, row| {
                *all.entry(row.tag.as_str()).or_default() += 1;
                all
            });
        let missing = all.iter().find(|(_, times)| **times < pages.len()).map(|(tag, _)| *tag);
        let Some(missing) = missing else { return };
        let (mut told, now) = (lock(&self.told_missing), self.now());
        if told.is_none_or(|told| now.saturating_sub(told) >= TELL_AGAIN) {
            *told = Some(now);
            tracing::warn!(
                tag = missing,
                "some of the store's databases have no row of this tag, so they cannot take over for \
                 it; run `leafd division make`, which completes the rows"
            );
        }
    }

    pub(super) async fn merged_row(&self, tag: &BizTag) -> Result<Row, StoreError> {
        let outcomes = self.each(false, |store| store.show(tag)).await;
        let asked = outcomes.len();
        let mut failures = Vec::new();
        let mut rows = Vec::new();
        for (_, outcome) in outcomes {
            match outcome {
                Ok(row) => rows.push(row),
                Err(error) => failures.push(error),
            }
        }
        match merged(rows) {
            Some(row) => Ok(row),
            None if asked < self.stores.len() => {
                failures.push(StoreError::Down(self.who_fails()));
                Err(common(failures))
            }
            None => Err(common(failures)),
        }
    }

    /// Why some databases were not asked.
    fn who_fails(&self) -> String {
        let members = self.members();
        let why: Vec<_> = members.failing().map(|(_, why)| why.to_owned()).collect();
        why.join("; ")
    }

    /// The row of a tag in every database, none where it is missing.
    async fn rows_everywhere(&self, tag: &BizTag) -> Result<Vec<Option<Row>>, StoreError> {
        let mut rows = Vec::with_capacity(self.stores.len());
        for (_, outcome) in self.each(true, |store| store.show(tag)).await {
            rows.push(match outcome {
                Ok(row) => Some(row),
                Err(StoreError::NoSuchTag) => None,
                Err(error) => return Err(needs_all(error)),
            });
        }
        Ok(rows)
    }

    pub(super) async fn create_everywhere(
        &self,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        let rows = self.rows_everywhere(tag).await?;
        // An earlier call may have made some of the rows; the others begin where those are. The tag exists
        // then, and does not begin where this call wants it to.
        let exists = rows.iter().any(Option::is_some);
        let wanted = new.first;
        let there = merged(rows.iter().flatten().cloned());
        let mut from = there.as_ref().map_or(0, |row| row.max_id.natural());
        // Where a deleted tag ended in one database, no other one may begin below.
        for (_, tombstone) in self.each(true, |store| store.tombstone(tag)).await {
            from = from.max(tombstone.map_err(needs_all)?.unwrap_or(0));
        }
        let step = there.as_ref().map_or(0, |row| row.step.natural());
        let new = NewTag {
            first: new.first.max(from),
            step: if step > 0 { step } else { new.step },
            ..new
        };
        let mut created = CreatedTag { first: new.first, knows_deleted: true };
        for ((index, store), row) in self.stores().zip(&rows) {
            if row.is_some() {
                continue;
            }
            match store.create(tag, new).await {
                Ok(made) => {
                    created.first = created.first.max(made.first);
                    created.knows_deleted &= made.knows_deleted;
                }
                // Another host was faster, and its row may begin elsewhere. It makes the others too.
                Err(StoreError::Exists) => return Err(StoreError::Exists),
                Err(error) => {
                    self.note(index, Some(&error), false);
                    return Err(match error {
                        StoreError::Down(why) | StoreError::Busy(why) => StoreError::Busy(format!(
                            "the tag may be in some databases of the store, and is not in all; make it \
                             again, which completes it and then says that it exists: {why}"
                        )),
                        StoreError::BadRow(why) if new.first > wanted && !exists => {
                            StoreError::BadRow(format!(
                                "{why}; a tag of this name was deleted there"
                            ))
                        }
                        error => error,
                    });
                }
            }
        }
        if exists {
            return Err(StoreError::Exists);
        }
        // The first lease comes from the first database that works.
        let share = self.order().first().and_then(|index| self.shares.of(*index));
        let first = share.and_then(|share| share.from(created.first.max(1)));
        let first = first.filter(|(first, _)| *first < MAX_END);
        created.first = first.map_or(created.first, |(first, _)| first);
        Ok(created)
    }

    pub(super) async fn delete_everywhere(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<DeletedTag, StoreError> {
        let rows = self.rows_everywhere(tag).await?;
        let mut deleted: Option<DeletedTag> = None;
        for ((index, store), row) in self.stores().zip(&rows) {
            if row.is_none() {
                continue;
            }
            match store.delete(tag, floor).await {
                Ok(here) => {
                    let tombstone = deleted.as_ref().map_or(0, |it| it.tombstone);
                    let rows = deleted.take().map(|it| it.row).into_iter().chain([here.row]);
                    let Some(row) = merged(rows) else { continue };
                    deleted = Some(DeletedTag { row, tombstone: tombstone.max(here.tombstone) });
                }
                Err(StoreError::NoSuchTag) => {}
                Err(error) => {
                    self.note(index, Some(&error), false);
                    let half = match deleted {
                        Some(_) => {
                            "the tag is deleted from some databases of the store, not from \
                                    all; delete it again: "
                        }
                        None => "",
                    };
                    return Err(match error {
                        StoreError::Down(why) => StoreError::Busy(format!("{half}{why}")),
                        StoreError::NotSetUp(why) => StoreError::NotSetUp(format!("{half}{why}")),
                        error => error,
                    });
                }
            }
        }
        let deleted = deleted.ok_or(StoreError::NoSuchTag)?;
        // A new tag of this name begins above it in every database, even if the others are gone by then.
        for (index, store) in self.stores() {
            let buried = store.bury(tag, deleted.tombstone).await;
            self.note(index, buried.as_ref().err(), false);
            buried.map_err(|error| match error {
                StoreError::Down(why) | StoreError::Busy(why) => StoreError::Busy(format!(
                    "the tag is deleted, but not all databases of the store know where it ended: {why}"
                )),
                error => error,
            })?;
        }
        lock(&self.marks).remove(tag);
        Ok(deleted)
    }

    pub(super) async fn set_step_everywhere(
        &self,
        tag: &BizTag,
        step: u64,
    ) -> Result<Row, StoreError> {
        let rows = self.rows_everywhere(tag).await?;
        let mut before = Vec::new();
        for ((index, store), row) in self.stores().zip(&rows) {
            if row.is_none() {
                continue;
            }
            let outcome = store.set_step(tag, step).await;
            self.note(index, outcome.as_ref().err(), false);
            before.push(outcome?);
        }
        merged(before).ok_or(StoreError::NoSuchTag)
    }

    /// Whether the row is there, and whether all databases together have lost what this host has seen: the
    /// highest end of a lease is in one of them. One that is behind the others has lost nothing.
    pub(super) async fn raise_lost(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<Option<i64>, StoreError> {
        if floor > 0 && self.members().failing().next().is_some() {
            return Ok(None);
        }
        let row = self.merged_row(tag).await?;
        let found = row.max_id.natural();
        if floor == 0 || found >= floor || self.members().failing().next().is_some() {
            return Ok(None);
        }
        self.first(|_, store| store.raise(tag, floor)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tag: &str, max_id: i64, step: i64) -> Row {
        Row {
            tag: tag.into(),
            max_id: max_id.into(),
            step: step.into(),
            description: String::new(),
        }
    }

    #[test]
    fn rows_are_merged_in_byte_order_with_the_furthest_position_and_the_first_step() {
        let rows = merged_rows([
            vec![row("a", 5, 10), row("c", 1, 10)],
            vec![row("B", 7, 20), row("a", 9, 20), row("c", 1, 30)],
        ]);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.tag.as_str(), row.max_id.natural(), row.step.natural()))
            .collect();
        assert_eq!(told, [("B", 7, 20), ("a", 9, 10), ("c", 1, 10)]);
    }
}
