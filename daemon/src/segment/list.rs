//! Many tags at once: pages of their statuses, and totals. The table is locked for a page at a
//! time, never for all tags: every request may need it.

use std::sync::Arc;

use leaf_client::wire::{ErrorCode, SegmentTotals, TagStatus, WireError};

use super::messages::RetiredCounts;
use super::service::{Segments, lock};
use super::tag::Tag;
use crate::ids::BizTag;
use crate::store::{FIND_AT_ONCE, Row, StoreError};

/// Names per lock of the table.
const AT_ONCE: usize = FIND_AT_ONCE;

/// A walk over all tags and lookups, in byte order. It may miss one that is added meanwhile.
#[derive(Debug, Default)]
pub(super) struct Walk {
    after: String,
}

impl Walk {
    /// A walk over those that come after a name.
    pub(super) fn after(name: &str) -> Self {
        Self { after: name.to_owned() }
    }

    /// The next tags; `None` at the end. An empty page is not the end.
    pub(super) fn next(&mut self, segments: &Segments) -> Option<Vec<Arc<Tag>>> {
        let table = lock(&segments.0.tags);
        let names = table.names_after(&self.after, AT_ONCE);
        let tags = names.iter().filter_map(|name| table.get_any(name.as_str()).cloned());
        let tags = tags.collect();
        drop(table);
        names.last()?.as_str().clone_into(&mut self.after);
        Some(tags)
    }
}

impl Segments {
    /// A page of tags in byte order: those of the store, and those that this host has used. While
    /// the store is down, only the latter.
    ///
    /// # Errors
    /// If the store is up and returns an error.
    pub(crate) async fn list(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<TagStatus>, WireError> {
        let mut rows = self.rows_after(after, limit).await?.into_iter().peekable();
        let mut names = self.names_used(after, limit).await.into_iter().peekable();
        let mut page = Vec::new();
        while page.len() < limit {
            let row = match (rows.peek(), names.peek()) {
                (Some((name, _)), Some(used)) if name > used => None,
                (None, _) => None,
                (Some(_), _) => rows.next(),
            };
            let (name, row) = match row {
                Some((name, row)) => {
                    names.next_if_eq(&name);
                    (name, Some(row))
                }
                None => match names.next() {
                    Some(name) => (name, None),
                    None => break,
                },
            };
            if let (Some(row), Some(tag)) = (&row, self.find(name.as_str())) {
                self.saw(&tag, row);
            }
            page.push(self.status_of(&name, row));
        }
        Ok(page)
    }

    /// A page of the tags that this host has used, in byte order, from memory.
    pub(crate) async fn used(&self, after: &str, limit: usize) -> Vec<TagStatus> {
        let names = self.names_used(after, limit).await;
        names.iter().map(|name| self.status_of(name, None)).collect()
    }

    async fn names_used(&self, after: &str, limit: usize) -> Vec<BizTag> {
        let mut walk = Walk::after(after);
        let mut names = Vec::new();
        while names.len() < limit
            && let Some(tags) = walk.next(self)
        {
            let used = tags.iter().filter(|tag| tag.is_known());
            names.extend(used.map(|tag| tag.name().clone()));
            tokio::task::yield_now().await;
        }
        names.truncate(limit);
        names
    }

    async fn rows_after(&self, after: &str, limit: usize) -> Result<Vec<(BizTag, Row)>, WireError> {
        let mut after = after.to_owned();
        let mut rows = Vec::new();
        while self.store_is_open() && rows.len() < limit {
            let began = self.now();
            let page = match self.0.store.page(&after, limit).await {
                Ok(page) => page,
                Err(StoreError::Down(error)) => {
                    self.note_down(began, &error);
                    break;
                }
                Err(error) => {
                    let text = format!("cannot read the list of tags: {error}");
                    return Err(WireError::new(ErrorCode::StoreUnavailable, text));
                }
            };
            let is_last = page.len() < limit;
            if let Some(last) = page.last() {
                last.tag.clone_into(&mut after);
            }
            // A row whose name no tag can have is not listed, and does not end the list.
            let named = page.into_iter().filter_map(|row| Some((BizTag::new(&row.tag).ok()?, row)));
            rows.extend(named);
            if is_last {
                break;
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    /// Totals over all tags, without a pause. For few tags.
    pub(crate) fn totals(&self) -> SegmentTotals {
        let (mut walk, mut totals) = (Walk::default(), self.no_totals());
        while let Some(tags) = walk.next(self) {
            add(&mut totals, &tags);
        }
        totals
    }

    /// Totals over any number of tags, letting other work run in between.
    pub(crate) async fn totals_in_turns(&self) -> SegmentTotals {
        let (mut walk, mut totals) = (Walk::default(), self.no_totals());
        while let Some(tags) = walk.next(self) {
            add(&mut totals, &tags);
            tokio::task::yield_now().await;
        }
        totals
    }

    fn no_totals(&self) -> SegmentTotals {
        let RetiredCounts { issued, leases } = *lock(&self.0.retired_counts);
        SegmentTotals {
            store: self.0.store.describe(),
            store_error: self.store_error(),
            tags: 0,
            waiting: 0,
            issued,
            leases,
        }
    }
}

fn add(totals: &mut SegmentTotals, tags: &[Arc<Tag>]) {
    for tag in tags {
        let state = tag.lock();
        let (counts, is_known) = (state.buffer.counts(), state.is_known());
        drop(state);
        totals.tags += u64::from(is_known);
        totals.waiting += counts.waiting;
        totals.issued += counts.issued;
        totals.leases += counts.leases;
    }
}
