//! The tags as people administer them: list, show, create, change.

use std::sync::Arc;

use leaf_client::wire::{ErrorCode, MAX_DESCRIPTION_CHARS, Span, TagStatus, WireError};

use super::range::{MAX_END, Range};
use super::service::{Segments, Tag, lock};
use super::store::{Row, StoreError};
use super::tag::BizTag;

/// Longest text of an error within a status, in bytes: a full page has to fit into an answer.
const MOST_ERROR_TEXT: usize = 300;

impl Segments {
    /// A page of tags in byte order: those of the store, and those that memory remembers.
    ///
    /// The first page reads the store's list; when that fails, the last one read is shown.
    pub async fn list(&self, after: &str, limit: usize) -> Vec<TagStatus> {
        if after.is_empty() && self.store_is_open() {
            let _ = self.refresh().await;
        }
        let in_memory = lock(&self.0.tags);
        let mut names: Vec<BizTag> = lock(&self.0.rows).keys().cloned().collect();
        names
            .extend(in_memory.iter().filter(|(_, tag)| has_something(tag)).map(|(n, _)| n.clone()));
        drop(in_memory);
        names.retain(|name| name.as_str() > after);
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        names.iter().map(|name| self.status_of(name)).collect()
    }

    /// One tag.
    ///
    /// # Errors
    /// When the store does not know it, or cannot be asked and memory has nothing.
    pub async fn show(&self, name: &str) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        match self.0.store.show(&name).await {
            Ok(row) => {
                lock(&self.0.rows).insert(name.clone(), row);
            }
            Err(StoreError::Down(_) | StoreError::Busy(_))
                if self.find(name.as_str()).is_some_and(|tag| has_something(&tag)) => {}
            Err(error) => return Err(to_wire(&name, &error)),
        }
        Ok(self.status_of(&name))
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
        if !(1..MAX_END).contains(&first) {
            let text = format!("the first ID {first} is not between 1 and 2^63 - 2");
            return Err(WireError::new(ErrorCode::BadCount, text).with_detail(MAX_END - 1));
        }
        let chars = description.chars().count();
        if chars > MAX_DESCRIPTION_CHARS {
            let text = format!(
                "the description has {chars} characters; the limit is {MAX_DESCRIPTION_CHARS}"
            );
            return Err(WireError::new(ErrorCode::BadDescription, text));
        }
        let made = self.0.store.create(&name, first, step, description).await;
        made.map_err(|error| to_wire(&name, &error))?;
        tracing::info!(tag = name.as_str(), step, first, "made a tag");
        if let Some(tag) = self.find(name.as_str()) {
            tag.lock().segment.appeared();
        }
        self.show(name.as_str()).await
    }

    /// Changes the step of a tag.
    ///
    /// # Errors
    /// When the step cannot be, the tag is not known, or the store cannot be asked.
    pub async fn set_step(&self, name: &str, step: u32) -> Result<TagStatus, WireError> {
        let name = checked(name)?;
        let step = self.step(step)?;
        let changed = self.0.store.set_step(&name, step).await;
        changed.map_err(|error| to_wire(&name, &error))?;
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

    fn status_of(&self, name: &BizTag) -> TagStatus {
        let row = lock(&self.0.rows).get(name).cloned();
        let row = row.unwrap_or_else(|| Row {
            tag: name.as_str().to_owned(),
            max_id: 0.into(),
            step: 0.into(),
            description: String::new(),
        });
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
        let row_step = row.step.natural();
        let mut status = TagStatus {
            tag: row.tag,
            row_step,
            step: row_step,
            max_id: row.max_id.natural(),
            description: row.description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
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
        status.row_step = row_step.max(view.row_step);
        status.step = step.max(row_step);
        // Between a lease and the next look at the list, memory knows better.
        status.max_id = status.max_id.max(view.floor);
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
fn has_something(tag: &Arc<Tag>) -> bool {
    let view = tag.lock().segment.view();
    !view.absent && view.floor > 0
}

fn shortened(mut text: String) -> String {
    if text.len() > MOST_ERROR_TEXT {
        text.truncate(text.floor_char_boundary(MOST_ERROR_TEXT));
        text.push('…');
    }
    text
}

fn checked(name: &str) -> Result<BizTag, WireError> {
    BizTag::new(name).map_err(|bad| WireError::new(ErrorCode::BadTag, bad.to_string()))
}

fn to_wire(name: &BizTag, error: &StoreError) -> WireError {
    let code = match error {
        StoreError::Down(_) | StoreError::Busy(_) => ErrorCode::StoreUnavailable,
        StoreError::NoSuchTag => ErrorCode::UnknownTag,
        StoreError::Exists => ErrorCode::TagExists,
        StoreError::BadRow(_) => ErrorCode::BadRow,
    };
    WireError::new(code, format!("tag {:?}: {error}", name.as_str()))
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
