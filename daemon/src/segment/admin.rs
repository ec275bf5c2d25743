//! The tags as people administer them: show, create, change, delete.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leaf_client::wire::{ErrorCode, MAX_DESCRIPTION_CHARS, Span, TagStatus, WireError};

use super::service::{Segments, Tag, lock};
use crate::ids::{BizTag, MAX_END, Range};
use crate::store::{CreatedTag, NewTag, Row, StoreError};

/// Longest text of an error within a status, in bytes: a full page has to fit into an answer.
const MOST_ERROR_TEXT: usize = 300;

impl Segments {
    /// One tag.
    ///
    /// # Errors
    /// When the store does not know it, or cannot be asked and memory has nothing.
    pub async fn show(&self, name: &str) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        match self.0.store.show(&name).await {
            Ok(row) => {
                if let Some(tag) = self.find(name.as_str()) {
                    self.saw(&tag, &row);
                }
                Ok(self.status_of(&name, Some(row)))
            }
            Err(StoreError::Down(_) | StoreError::Busy(_))
                if self.find(name.as_str()).is_some_and(|tag| has_something(&tag)) =>
            {
                Ok(self.status_of(&name, None))
            }
            Err(error) => Err(to_wire(name.as_str(), &error)),
        }
    }

    /// Makes a tag whose first ID is `first`; `step` 0 is the default.
    ///
    /// # Errors
    /// When a value cannot be, the tag exists, or the store cannot be asked.
    pub async fn create(
        &self,
        name: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let step = if step == 0 { self.0.settings.default_step } else { self.step(step)? };
        first_fits(first, step)?;
        let chars = description.chars().count();
        if chars > MAX_DESCRIPTION_CHARS {
            let text = format!(
                "the description has {chars} characters; the limit is {MAX_DESCRIPTION_CHARS}"
            );
            return Err(WireError::new(ErrorCode::BadDescription, text));
        }
        let first = first.max(self.seen(&name));
        let made = self.make(&name, NewTag::new(first, step, description)).await;
        let made = made.map_err(|error| to_wire(name.as_str(), &error))?;
        tracing::info!(tag = name.as_str(), step, first = made.first, "made a tag");
        self.appeared(&name);
        let row = Row {
            tag: name.as_str().to_owned(),
            max_id: made.first.cast_signed().into(),
            step: step.cast_signed().into(),
            description: description.to_owned(),
        };
        // What the row has, and nothing that only this host knows.
        Ok(TagStatus { max_id: made.first, ..self.status_of(&name, Some(row)) })
    }

    /// Makes a row, for an administrator or on first use.
    pub(super) async fn make(
        &self,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        let new = NewTag { witness: Some(self), ..new };
        let made = self.0.store.create(tag, new).await?;
        if !made.knows_deleted && !self.0.told_of_tombstones.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                tag = tag.as_str(),
                "tags are made in a database without the table leafd_tombstone: where a deleted \
                 tag of the same name ended is known only to hosts that used it, so a tag made \
                 anew can repeat IDs. `leafd schema` prints the table"
            );
        }
        Ok(made)
    }

    /// Deletes a tag. What it gave is remembered: a new tag of this name begins above.
    ///
    /// # Errors
    /// When the store does not know it, cannot be asked, or cannot remember where the tag ended.
    pub async fn delete(&self, name: &str) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let deleted = self.0.store.delete(&name, self.seen(&name)).await;
        let deleted = deleted.map_err(|error| to_wire(name.as_str(), &error))?;
        let mut dropped = 0;
        if let Some(tag) = self.find(name.as_str()) {
            let mut inner = tag.lock();
            dropped = inner.segment.view().remaining;
            inner.segment.removed(self.now());
            inner.segment.row_is_at(deleted.tombstone);
            drop(inner);
            lock(&self.0.tags).note_removed();
            self.attend(&tag);
        }
        let first = deleted.tombstone;
        tracing::info!(
            tag = name.as_str(),
            dropped,
            "deleted a tag; a new one of this name begins at {first} or above"
        );
        Ok(TagStatus { max_id: first, ..self.status_of(&name, Some(deleted.row)) })
    }

    /// The highest end of a tag that this host has seen; the base for one that it never saw.
    fn seen(&self, name: &BizTag) -> u64 {
        let (tag, mark) = {
            let table = lock(&self.0.tags);
            (table.get(name.as_str()).cloned(), table.mark(name))
        };
        self.or_base(tag.map_or(mark, |tag| tag.lock().segment.figures().floor))
    }

    /// Changes the step of a tag.
    ///
    /// # Errors
    /// When the step cannot be, the tag is not known, or the store cannot be asked.
    pub async fn set_step(&self, name: &str, step: u32) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let step = self.step(step)?;
        let changed = self.0.store.set_step(&name, step).await;
        changed.map_err(|error| to_wire(name.as_str(), &error))?;
        tracing::info!(tag = name.as_str(), step, "changed the step of a tag");
        if let Some(tag) = self.find(name.as_str()) {
            tag.lock().segment.row_step_is(step);
        }
        self.show(name.as_str()).await
    }

    fn step(&self, step: u32) -> Result<u64, WireError> {
        let most = self.0.settings.rules.max_step;
        let step = u64::from(step);
        if (1..=most).contains(&step) {
            return Ok(step);
        }
        let text = format!("step {step} is not between 1 and {most} (segment.max-step)");
        Err(WireError::new(ErrorCode::BadStep, text).with_detail(most))
    }

    /// Without a row, what memory knows stands in for it.
    pub(super) fn status_of(&self, name: &BizTag, row: Option<Row>) -> TagStatus {
        let view = self.find(name.as_str()).map(|tag| {
            let (inner, now) = (tag.lock(), self.now());
            let segment = &inner.segment;
            let mut view = segment.view();
            if segment.waits_for_store() {
                // What the tag was told when it began to wait may be old by now.
                view.lease_error = Some(self.store_error()).filter(|error| !error.is_empty());
            }
            (view, segment.next_step(now), segment.seconds_left(now))
        });
        let known = view.as_ref().map_or((0, 0), |(view, ..)| (view.row_step, view.floor));
        let (row_step, max_id, description) = match row {
            // A row that went backwards is moved forward to what this host has seen.
            Some(row) => (row.step.natural(), row.max_id.natural().max(known.1), row.description),
            None => (known.0, known.1, String::new()),
        };
        let mut status = TagStatus {
            tag: name.as_str().to_owned(),
            row_step,
            step: row_step,
            max_id,
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            current: None,
            next: None,
            position: 0,
            remaining: 0,
            issued: 0,
            leases: 0,
            last_lease_ms_ago: None,
            last_lease_size: 0,
            waiting: 0,
            lease_error: String::new(),
            seconds_left: None,
        };
        let Some((view, step, seconds_left)) = view else { return status };
        let span = |range: &Range| Span { start: range.start(), end: range.end() };
        let current = |range: &&Range| view.position.is_some_and(|at| at < range.end());
        let mut ranges = view.leases.iter().filter(current);
        status.step = step.max(row_step);
        status.current = ranges.next().map(span);
        status.next = ranges.next().map(span);
        status.position = view.position.unwrap_or(0);
        status.remaining = view.remaining;
        status.issued = view.issued;
        status.leases = view.lease_count;
        status.last_lease_ms_ago = view.last_lease.map(|last| {
            u64::try_from(self.now().saturating_sub(last).as_millis()).unwrap_or(u64::MAX)
        });
        status.last_lease_size = view.last_size;
        status.waiting = view.waiting as u64;
        status.lease_error = shortened(view.lease_error.unwrap_or_default());
        status.seconds_left = seconds_left;
        status
    }
}

/// Whether memory knows more of a tag than its name: one that is drained too, which is what people
/// look for when the store is down.
pub(super) fn has_something(tag: &Arc<Tag>) -> bool {
    let figures = tag.lock().segment.figures();
    !figures.absent && figures.floor > 0
}

fn shortened(mut text: String) -> String {
    if text.len() > MOST_ERROR_TEXT {
        text.truncate(text.floor_char_boundary(MOST_ERROR_TEXT));
        text.push('…');
    }
    text
}

/// Whether a tag with this first ID can give a single range.
fn first_fits(first: u64, step: u64) -> Result<(), WireError> {
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

pub(super) fn to_wire(name: &str, error: &StoreError) -> WireError {
    let code = match error {
        StoreError::Down(_) | StoreError::Busy(_) => ErrorCode::StoreUnavailable,
        StoreError::NoSuchTag => ErrorCode::UnknownTag,
        StoreError::Exists => ErrorCode::TagExists,
        StoreError::BadRow(_) => ErrorCode::BadRow,
        StoreError::NotSetUp(_) => ErrorCode::NotConfigured,
    };
    WireError::new(code, format!("tag {name:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{
        MAX_RESPONSE_LEN, MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, Reply, Response, decode_response,
        encode_response, split_frame,
    };

    use super::*;

    #[test]
    fn a_page_of_the_longest_tags_fits_into_an_answer() {
        let span = Some(Span { start: u64::MAX, end: u64::MAX });
        let longest = TagStatus {
            tag: "🦀".repeat(MAX_TAG_CHARS),
            row_step: u64::MAX,
            step: u64::MAX,
            max_id: u64::MAX,
            description: "🦀".repeat(MAX_DESCRIPTION_CHARS),
            current: span,
            next: span,
            position: u64::MAX,
            remaining: u64::MAX,
            issued: u64::MAX,
            leases: u64::MAX,
            last_lease_ms_ago: Some(u64::MAX),
            last_lease_size: u64::MAX,
            waiting: u64::MAX,
            lease_error: shortened("x".repeat(10_000)),
            seconds_left: Some(u64::MAX),
        };
        let page = Reply::Tags(vec![longest; MAX_TAGS_PER_PAGE as usize]);
        let response = Response { id: u64::MAX, reply: page };
        let mut frame = Vec::new();
        encode_response(&response, &mut frame);
        let (body, _) = split_frame(&frame, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
    }
}
