//! The figures of tags, for the metrics and for forecasts.

use super::lease_tally::LeaseTally;
use super::list::Walk;
use super::messages::TagFigures;
use super::service::Segments;
use super::tag::Tag;
use crate::store::DatabaseCount;
use crate::store::witness::keeper::EpochStatus;

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

    /// The epoch of the witness table, if the database has it.
    pub(crate) fn store_epoch(&self) -> Option<EpochStatus> {
        self.0.store.witness()?.keeper()?.status()
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
                waiting += self.visit(tag, &mut visit).0;
            }
            tokio::task::yield_now().await;
        }
        waiting
    }

    /// What `read` makes of at most `limit` of the tags that [`Self::visit_tags`] visits, after the
    /// name `after` and in byte order. Other work runs in between.
    pub(crate) async fn figures_after<T: Send>(
        &self,
        after: &str,
        limit: usize,
        mut read: impl FnMut(&TagFigures<'_>) -> T + Send,
    ) -> Vec<T> {
        let (mut walk, mut page) = (Walk::after(after), Vec::new());
        while page.len() < limit
            && let Some(tags) = walk.next(self)
        {
            let left = limit - page.len();
            let found = tags.iter().filter_map(|tag| self.visit(tag, &mut read).1);
            page.extend(found.take(left));
            tokio::task::yield_now().await;
        }
        page
    }

    /// What `read` makes of the tag `name`; `None` unless [`Self::visit_tags`] would visit it.
    pub(crate) fn figures_of<T>(
        &self,
        name: &str,
        mut read: impl FnMut(&TagFigures<'_>) -> T,
    ) -> Option<T> {
        self.visit(&*self.find(name)?, &mut read).1
    }

    /// Returns how many requests wait, and what `visit` makes of a tag that has a row.
    fn visit<T>(
        &self,
        tag: &Tag,
        visit: &mut impl FnMut(&TagFigures<'_>) -> T,
    ) -> (u64, Option<T>) {
        let now = self.now();
        let state = tag.lock();
        let counts = state.buffer.counts();
        if state.lane.is_some() || counts.gone {
            return (counts.waiting, None);
        }
        let figures = state.buffer.figures(tag.name(), now);
        drop(state);
        (counts.waiting, Some(visit(&figures)))
    }
}
