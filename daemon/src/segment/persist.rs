//! Writes what the buffers want on disk: one task, one write for all tags whose records changed, so
//! that they share the cost of a sync. While a write is in flight, the next one gathers.

use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::ErrorCode;

use super::service::{Segments, lock};
use super::tag::Tag;
use crate::ids::BizTag;
use crate::state::journal::TagRecord;

type Named = (BizTag, TagRecord);

impl Segments {
    pub(super) async fn persist_for_ever(self) {
        let mut failing = false;
        loop {
            self.0.dirty_signal.notified().await;
            let (tags, records) = self.gather();
            if records.is_empty() {
                continue;
            }
            let outcome = self.0.writer.segments(records).await;
            match &outcome {
                Ok(()) if failing => tracing::info!("the state directory can be written again"),
                Err(why) if !failing => tracing::error!(
                    error = %ErrorCode::StateUnavailable,
                    "the state directory cannot be written; IDs end when what is ready is used \
                     up: {why}"
                ),
                _ => {}
            }
            failing = outcome.is_err();
            self.written(&tags, &outcome);
        }
    }

    fn gather(&self) -> (Vec<Arc<Tag>>, Vec<Named>) {
        let dirty = std::mem::take(&mut *lock(&self.0.dirty));
        let now = self.now();
        let mut tags = Vec::new();
        let mut records = Vec::new();
        for tag in dirty {
            let mut state = tag.lock();
            state.is_dirty = false;
            if let Some(record) = state.buffer.poll_persist(now) {
                state.used_s = self.unix_seconds();
                records.push((tag.name().clone(), state.to_disk(record)));
                drop(state);
                tags.push(tag);
            }
        }
        (tags, records)
    }

    /// Reports the outcome of a write to the buffers of `tags`.
    fn written(&self, tags: &[Arc<Tag>], outcome: &Result<(), String>) {
        let now = self.now();
        let mut back_off = Duration::ZERO;
        for tag in tags {
            let mut state = tag.lock();
            match outcome {
                Ok(()) => state.buffer.persisted(),
                Err(why) => {
                    state.buffer.persist_failed(now, why.clone());
                    let until = state.buffer.retry_persist_at().unwrap_or(now);
                    back_off = back_off.max(until.saturating_sub(now));
                }
            }
            drop(state);
            self.attend(tag);
        }
        if outcome.is_err() {
            let (this, tags) = (self.clone(), tags.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(back_off).await;
                for tag in &tags {
                    this.attend(tag);
                }
            });
        }
    }
}
