//! The figures of every tag, for the metrics.

use super::lease_tally::LeaseTally;
use super::list::Walk;
use super::messages::TagFigures;
use super::service::Segments;
use super::tag::Tag;
use crate::store::DatabaseCount;

impl Segments {
    pub(crate) fn lease_tally(&self) -> &LeaseTally {
        &self.0.lease_tally
    }

    /// The store's kind and address, never with a password.
    pub(crate) fn describe_store(&self) -> String {
        self.0.store.describe()
    }

    /// How many databases the store has, if it has several.
    pub(crate) fn store_databases(&self) -> Option<DatabaseCount> {
        self.0.store.databases()
    }

    /// Whether the last call to the store worked.
    pub(crate) fn store_works(&self) -> bool {
        self.store_error().is_empty()
    }

    /// Requests of all tags that wait for IDs, and everything about each tag that has a row, in byte
    /// order. Other work runs in between.
    pub(crate) async fn visit_tags(&self, mut visit: impl FnMut(&TagFigures<'_>) + Send) -> u64 {
        let (mut walk, mut waiting) = (Walk::default(), 0);
        while let Some(tags) = walk.next(self) {
            for tag in &tags {
                waiting += self.visit(tag, &mut visit);
            }
            tokio::task::yield_now().await;
        }
        waiting
    }

    /// Returns how many requests wait.
    fn visit(&self, tag: &Tag, visit: &mut impl FnMut(&TagFigures<'_>)) -> u64 {
        let now = self.now();
        let state = tag.lock();
        let counts = state.buffer.counts();
        if state.lane.is_some() || counts.gone {
            return counts.waiting;
        }
        let figures = state.buffer.figures(tag.name(), now);
        drop(state);
        visit(&figures);
        counts.waiting
    }
}
