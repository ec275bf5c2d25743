//! The tags as people administer them: list, show, create, change; and the refresh that keeps
//! memory in step with the store's list.

use std::sync::Arc;

use leaf_client::wire::{ErrorCode, MAX_DESCRIPTION_CHARS, Span, TagStatus, WireError};
use tokio::time::MissedTickBehavior;

use super::range::{MAX_END, Range};
use super::service::{Segments, Tag, lock};
use super::store::{Row, StoreError, in_time};
use super::tag::BizTag;

/// Longest text of an error within a status, in bytes: a full page has to fit into an answer.
const MOST_ERROR_TEXT: usize = 300;

impl Segments {
    pub(super) async fn refresh_for_ever(self) {
        let mut ticks = tokio::time::interval(self.0.settings.refresh);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            // A failed refresh changes nothing.
            let _ = self.refresh().await;
        }
    }

    /// Reads the list of tags. Who is no longer in it is served no longer.
    async fn refresh(&self) -> Result<(), StoreError> {
        let began = self.now();
        let store = &self.0.store;
        let outcome = in_time(self.0.settings.store_timeout, store.list()).await;
        self.note_store(outcome.as_ref().err());
        let rows = outcome?;
        let rows = rows.into_iter().filter_map(|row| Some((BizTag::new(&row.tag).ok()?, row)));
        let rows: std::collections::BTreeMap<_, _> = rows.collect();
        let tags: Vec<_> = lock(&self.0.tags).values().cloned().collect();
        for tag in tags {
            let mut inner = tag.lock();
            if let Some(row) = rows.get(tag.name.as_str()) {
                inner.segment.row_step_is(u64::try_from(row.step).unwrap_or(0));
                inner.segment.appeared();
                continue;
            }
            let view = inner.segment.view();
            // Leased after the list was asked for: the list may be older than the row.
            let fresh = view.last_lease.is_some_and(|last| last >= began);
            // A lease in flight will tell by itself.
            if !view.absent && !view.leasing && !fresh && view.floor > 0 {
                let now = self.now();
                tracing::warn!(
                    tag = tag.name(),
                    dropped = view.remaining,
                    "the tag is gone from the store; it is served no longer"
                );
                inner.segment.removed(now);
                drop(inner);
                self.attend(&tag);
            }
        }
        *lock(&self.0.rows) = rows;
        Ok(())
    }

    /// A page of tags in byte order: those of the store, and those that memory remembers.
    ///
    /// The first page reads the store's list; when that fails, the last one read is shown.
    pub async fn list(&self, after: &str, limit: usize) -> Vec<TagStatus> {
        if after.is_empty() {
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
        let store = &self.0.store;
        match in_time(self.0.settings.store_timeout, store.show(&name)).await {
            Ok(row) => {
                lock(&self.0.rows).insert(name.clone(), row);
            }
            Err(StoreError::Unavailable(_))
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
        let store = &self.0.store;
        let create = store.create(&name, first, step, description);
        in_time(self.0.settings.store_timeout, create)
            .await
            .map_err(|error| to_wire(&name, &error))?;
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
        let store = &self.0.store;
        in_time(self.0.settings.store_timeout, store.set_step(&name, step))
            .await
            .map_err(|error| to_wire(&name, &error))?;
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
            max_id: 0,
            step: 0,
            description: String::new(),
        });
        let view = self.find(name.as_str()).map(|tag| {
            let inner = tag.lock();
            (inner.segment.view(), inner.segment.next_step(self.now()))
        });
        let row_step = u64::try_from(row.step).unwrap_or(0);
        let mut status = TagStatus {
            tag: row.tag,
            row_step,
            step: row_step,
            max_id: u64::try_from(row.max_id).unwrap_or(0),
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
        };
        let Some((view, step)) = view else { return status };
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
        status
    }
}

/// Whether memory has more of a tag than its name.
fn has_something(tag: &Arc<Tag>) -> bool {
    let view = tag.lock().segment.view();
    !view.absent && view.remaining > 0
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
        StoreError::Unavailable(_) => ErrorCode::StoreUnavailable,
        StoreError::NoSuchTag => ErrorCode::UnknownTag,
        StoreError::Exists => ErrorCode::TagExists,
        StoreError::BadRow(_) => ErrorCode::BadRow,
    };
    WireError::new(code, format!("tag {:?}: {error}", name.as_str()))
}
