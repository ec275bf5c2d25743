//! Writing what the buffers want on disk: one task, all tags that have news in one write, so that
//! the cost of a sync is shared. While a write is under way, the next one gathers.

use std::sync::Arc;
use std::time::Duration;

use super::service::{Segments, Tag, lock};
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
                    "the state directory cannot be written; IDs end when what is ready is used \
                     up: {why}"
                ),
                _ => {}
            }
            failing = outcome.is_err();
            self.told(&tags, &outcome);
        }
    }

    fn gather(&self) -> (Vec<Arc<Tag>>, Vec<Named>) {
        let listed = std::mem::take(&mut *lock(&self.0.dirty));
        let now = self.now();
        let mut tags = Vec::new();
        let mut records = Vec::new();
        for tag in listed {
            let mut inner = tag.lock();
            inner.listed = false;
            if let Some(record) = inner.segment.poll_persist(now) {
                inner.used_s = self.unix_seconds();
                records.push((tag.name.clone(), inner.to_disk(record)));
                drop(inner);
                tags.push(tag);
            }
        }
        (tags, records)
    }

    fn told(&self, tags: &[Arc<Tag>], outcome: &Result<(), String>) {
        let now = self.now();
        let mut rest = Duration::ZERO;
        for tag in tags {
            let mut inner = tag.lock();
            match outcome {
                Ok(()) => inner.segment.persisted(),
                Err(why) => {
                    inner.segment.persist_failed(now, why.clone());
                    let until = inner.segment.persist_rests_until().unwrap_or(now);
                    rest = rest.max(until.saturating_sub(now));
                }
            }
            drop(inner);
            self.attend(tag);
        }
        if outcome.is_err() {
            let (this, tags) = (self.clone(), tags.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(rest).await;
                for tag in &tags {
                    this.attend(tag);
                }
            });
        }
    }
}
