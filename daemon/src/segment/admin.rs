//! Administration of tags: show, create, change the step, delete.

use std::sync::atomic::Ordering;

use leaf_client::wire::{ErrorCode, MAX_DESCRIPTION_CHARS, TagStatus, WireError};

use super::service::{Segments, lock};
use crate::ids::{BizTag, MAX_END};
use crate::store::{CreatedTag, NewTag, Row, StoreError};

impl Segments {
    /// The status of one tag. Memory answers for a tag that it knows while the store does not.
    ///
    /// # Errors
    /// If the store does not have it, or the store cannot be asked and memory has nothing.
    pub(crate) async fn show(&self, name: &str) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        match self.0.store.show(&name).await {
            Ok(row) => {
                if let Some(tag) = self.find(name.as_str()) {
                    self.saw(&tag, &row);
                }
                Ok(self.status_of(&name, Some(row)))
            }
            Err(StoreError::Down(_) | StoreError::Busy(_))
                if self.find(name.as_str()).is_some_and(|tag| tag.is_known()) =>
            {
                Ok(self.status_of(&name, None))
            }
            Err(error) => Err(to_wire(name.as_str(), &error)),
        }
    }

    /// Creates a tag whose first ID is `first`; `step` 0 means the default.
    ///
    /// # Errors
    /// If a value is out of range, the tag exists, or the store cannot be asked.
    pub(crate) async fn create(
        &self,
        name: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let step = if step == 0 { self.0.settings.default_step } else { self.check_step(step)? };
        check_first(first, step)?;
        let chars = description.chars().count();
        if chars > MAX_DESCRIPTION_CHARS {
            let text = format!(
                "the description has {chars} characters; the limit is {MAX_DESCRIPTION_CHARS}"
            );
            return Err(WireError::new(ErrorCode::BadDescription, text));
        }
        let first = first.max(self.seen(&name));
        let made = self.create_row(&name, NewTag::new(first, step, description)).await;
        let made = made.map_err(|error| to_wire(name.as_str(), &error))?;
        self.appeared(&name);
        let row = Row {
            tag: name.as_str().to_owned(),
            max_id: made.first.cast_signed().into(),
            step: step.cast_signed().into(),
            description: description.to_owned(),
        };
        // What the row has, not what only this host knows.
        Ok(TagStatus { max_id: made.first, ..self.status_of(&name, Some(row)) })
    }

    /// Creates a row, for an administrator or on first use.
    pub(super) async fn create_row(
        &self,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        let new = NewTag { witness: Some(self), ..new };
        let made = self.0.store.create(tag, new).await?;
        if !made.knows_deleted && !self.0.tombstones_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                tag = tag.as_str(),
                "leafd creates tags in a database without the table leafd_tombstone: only hosts \
                 that used a deleted tag know where it ended, so a tag that is created again can \
                 repeat IDs. `leafd schema` prints the table"
            );
        }
        Ok(made)
    }

    /// Deletes a tag. The store remembers where it ended: a new tag of this name begins above.
    ///
    /// # Errors
    /// If the store does not have the tag, cannot be asked, or cannot remember where the tag ended.
    pub(crate) async fn delete(&self, name: &str) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let deleted = self.0.store.delete(&name, self.seen(&name)).await;
        let deleted = deleted.map_err(|error| to_wire(name.as_str(), &error))?;
        let mut dropped = 0;
        if let Some(tag) = self.find(name.as_str()) {
            let mut state = tag.lock();
            dropped = state.buffer.view().remaining;
            state.buffer.removed(self.now());
            state.buffer.row_is_at(deleted.tombstone);
            drop(state);
            lock(&self.0.tags).note_removed();
            self.attend(&tag);
        }
        let first = deleted.tombstone;
        tracing::debug!(tag = name.as_str(), dropped, first, "deleted a tag");
        Ok(TagStatus { max_id: first, ..self.status_of(&name, Some(deleted.row)) })
    }

    /// The high-water mark of a tag; the base for a tag that this host never saw.
    fn seen(&self, name: &BizTag) -> u64 {
        let (tag, mark) = {
            let table = lock(&self.0.tags);
            (table.get(name.as_str()).cloned(), table.mark(name))
        };
        self.or_base(tag.map_or(mark, |tag| tag.lock().buffer.counts().high_water_mark))
    }

    /// Changes the step of a tag. Also returns the step that it had.
    ///
    /// # Errors
    /// If the step is out of range, the store does not have the tag, or it cannot be asked.
    pub(crate) async fn set_step(
        &self,
        name: &str,
        step: u32,
    ) -> Result<(Option<i64>, TagStatus), WireError> {
        let name = checked(name)?;
        let step = self.check_step(step)?;
        let changed = self.0.store.set_step(&name, step).await;
        let row = changed.map_err(|error| to_wire(name.as_str(), &error))?;
        if let Some(tag) = self.find(name.as_str()) {
            tag.lock().buffer.row_step_is(step);
        }
        let old = row.step.get();
        let row = Row { step: step.cast_signed().into(), ..row };
        Ok((old, self.status_of(&name, Some(row))))
    }

    fn check_step(&self, step: u32) -> Result<u64, WireError> {
        let most = self.0.settings.rules.max_step;
        let step = u64::from(step);
        if (1..=most).contains(&step) {
            return Ok(step);
        }
        let text = format!("step {step} is not between 1 and {most} (segment.max-step)");
        Err(WireError::new(ErrorCode::BadStep, text).with_detail(most))
    }
}

/// Whether a tag with this first ID has room for a single range.
fn check_first(first: u64, step: u64) -> Result<(), WireError> {
    if (1..MAX_END).contains(&first) && first.checked_add(step).is_some_and(|end| end <= MAX_END) {
        return Ok(());
    }
    let most = MAX_END.saturating_sub(step).max(1);
    let text = format!(
        "the first ID {first} is not between 1 and {most}: with step {step} the tag could give \
         no range below 2^63"
    );
    Err(WireError::new(ErrorCode::BadCount, text).with_detail(most))
}

fn checked(name: &str) -> Result<BizTag, WireError> {
    BizTag::new(name).map_err(|bad| WireError::new(ErrorCode::BadTag, bad.to_string()))
}

fn to_wire(name: &str, error: &StoreError) -> WireError {
    let code = match error {
        StoreError::Down(_) | StoreError::Busy(_) => ErrorCode::StoreUnavailable,
        StoreError::NoSuchTag => ErrorCode::UnknownTag,
        StoreError::Exists => ErrorCode::TagExists,
        StoreError::BadRow(_) => ErrorCode::BadRow,
        StoreError::NotSetUp(_) => ErrorCode::NotConfigured,
    };
    WireError::new(code, format!("tag {name:?}: {error}"))
}
