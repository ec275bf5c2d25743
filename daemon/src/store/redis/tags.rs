//! Making, moving, changing and deleting counters. Each reads first, and its script changes nothing if somebody
//! else has changed the counter meanwhile.

use super::Redis;
use super::calls::{ATTEMPTS, Change};
use crate::ids::BizTag;
use crate::store::plan::{plan_creation, plan_deletion};
use crate::store::{CreatedTag, DeletedTag, NewTag, Row, StoreError};

/// Where a new counter may begin at the earliest, by leafd's record of an earlier one.
fn recorded(record: &str) -> Option<u64> {
    let end: u64 = record.split(' ').next()?.parse().ok()?;
    Some(end.saturating_add(1))
}

impl Redis {
    pub(super) async fn create_counter(
        &self,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        let counter = self.counter(tag)?;
        let link = self.link().await?;
        let mut skipped = 0;
        for _ in 0..ATTEMPTS {
            let record = self.record_of_none(tag, &counter).await?;
            let tombstone = recorded(&record);
            let first = plan_creation(new.first, tombstone, new.step)?;
            let first = plan_creation(first.saturating_add(skipped), tombstone, new.step)?;
            if let Some(witness) = new.witness {
                let written = tokio::time::timeout(self.timeout / 2, witness.begins_at(tag, first));
                written.await.unwrap_or_else(|_| {
                    Err(StoreError::Busy("the state directory has not answered in time".into()))
                })?;
            }
            let (value, step) = (first.saturating_sub(1).to_string(), new.step.to_string());
            let (margin, done) = (self.place.margin.to_string(), skipped.to_string());
            let arguments = [&*record, &value, &step, new.description, &margin, &done];
            let reply = self.script(&link, &self.scripts.create, &counter, &arguments).await?;
            match reply.word() {
                "done" => return Ok(CreatedTag { first, knows_deleted: true }),
                "exists" => return Err(StoreError::Exists),
                "changed" => {}
                "recent" if reply.number(1)? == 0 => return Err(reply.unexpected()),
                "recent" => skipped = reply.number(1)?,
                _ => return Err(reply.unexpected()),
            }
        }
        Err(self.disturbed(tag))
    }

    /// leafd's record of a counter that does not exist.
    async fn record_of_none(&self, tag: &BizTag, counter: &str) -> Result<String, StoreError> {
        if self.raw(tag).await?.is_some() {
            return Err(StoreError::Exists);
        }
        let link = self.link().await?;
        let mut read = redis::cmd("HGET");
        read.arg(self.place.keys.leases()).arg(counter);
        let mut connection = link.connection();
        let record: Option<String> = self.on(&link, read.query_async(&mut connection)).await?;
        Ok(record.unwrap_or_default())
    }

    pub(super) async fn delete_counter(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<DeletedTag, StoreError> {
        let counter = self.counter(tag)?;
        let link = self.link().await?;
        for _ in 0..ATTEMPTS {
            let raw = self.raw(tag).await?.ok_or(StoreError::NoSuchTag)?;
            let tombstone = plan_deletion(&raw.row, recorded(&raw.record), floor)?;
            let (value, end) = (raw.value.unwrap_or_default(), tombstone.saturating_sub(1));
            let arguments = [&*value, &raw.record, &end.to_string()];
            let reply = self.script(&link, &self.scripts.delete, &counter, &arguments).await?;
            match reply.word() {
                "done" => return Ok(DeletedTag { row: raw.row, tombstone }),
                "changed" => {}
                _ => return Err(reply.unexpected()),
            }
        }
        Err(self.disturbed(tag))
    }

    pub(super) async fn raise_counter(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<Option<i64>, StoreError> {
        let counter = self.counter(tag)?;
        let link = self.link().await?;
        for _ in 0..ATTEMPTS {
            let row = self.row(tag).await?;
            let at = row.max_id.get().filter(|max_id| (1..floor.cast_signed()).contains(max_id));
            let Some(at) = at else { return Ok(None) };
            let (from, to) = (at.unsigned_abs().saturating_sub(1), floor.saturating_sub(1));
            if self.raise_to(&link, &counter, from, to).await? == Change::Done {
                return Ok(Some(at));
            }
        }
        Err(self.disturbed(tag))
    }

    pub(super) async fn write_step(&self, tag: &BizTag, step: u64) -> Result<Row, StoreError> {
        let counter = self.counter(tag)?;
        let row = self.row(tag).await?;
        let link = self.link().await?;
        let step = step.to_string();
        let reply = self.script(&link, &self.scripts.step, &counter, &[&step]).await?;
        if reply.word() == "done" { Ok(row) } else { Err(reply.unexpected()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_where_a_counter_may_begin_again() {
        assert_eq!(recorded("41 10 0 1700000000 abc"), Some(42));
        for text in ["", "x", "-1 1"] {
            assert_eq!(recorded(text), None, "{text}");
        }
    }
}
