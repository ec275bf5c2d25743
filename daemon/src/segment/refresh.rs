//! The refresh: keeps memory in step with the store's list of tags. Who is no longer in it is served
//! no longer; a row that went backwards is moved forward; what a row says counts as seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::lease::{report_backwards, report_gone};
use super::list::Walk;
use super::service::{Segments, Tag, lock};
use super::terms::{Record, View};
use crate::ids::{BizTag, RangeQueue};
use crate::store::{FIND_AT_ONCE, Row, StoreError};

/// What the list says of a tag that memory knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// Nothing that has to be done.
    Fine,
    /// The row is below what this host has seen.
    Behind {
        /// The highest end seen.
        floor: u64,
    },
    /// There is no row.
    Gone,
}

impl Finding {
    /// Compares a tag with its row in a list that was asked for at `began`.
    fn of(view: &View, row: Option<&Row>, began: Duration) -> Self {
        // Leased after the list was asked for, or just now: the list may be older than that.
        let fresh = view.leasing || view.last_lease.is_some_and(|last| last >= began);
        match row {
            // Of a tag that was never leased here nothing is known.
            _ if fresh || view.floor == 0 => Self::Fine,
            Some(row) => match row.max_id.get().map(u64::try_from) {
                Some(Ok(max_id)) if max_id < view.floor => Self::Behind { floor: view.floor },
                // One that cannot be right is not to be mended in silence: a lease says what it is.
                _ => Self::Fine,
            },
            None if view.absent => Self::Fine,
            None => Self::Gone,
        }
    }
}

impl Segments {
    pub(super) async fn refresh_for_ever(self) {
        let mut ticks = tokio::time::interval(self.0.settings.refresh);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                _ = ticks.tick() => {}
                () = self.0.refresh_now.notified() => ticks.reset(),
            }
            self.note_rates().await;
            // When it is back, that calls for a refresh by itself.
            if !self.store_is_open() {
                continue;
            }
            let outcome = self.refresh().await;
            if let Err(why) = &outcome
                && !failing
            {
                tracing::warn!("the list of tags cannot be read, to be repeated: {why}");
            }
            failing = outcome.is_err();
        }
    }

    /// A tag at rest tells nothing of itself: without this its last burst would count for ever.
    async fn note_rates(&self) {
        let mut walk = Walk::default();
        while let Some(tags) = walk.next(self) {
            let now = self.now();
            for tag in tags {
                tag.lock().segment.note_rate(now);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Compares what memory knows with the rows, some at a time. Rows of other tags are not read,
    /// so it does not matter how many there are.
    async fn refresh(&self) -> Result<(), StoreError> {
        let mut after = String::new();
        loop {
            let names = lock(&self.0.tags).names_after(&after, FIND_AT_ONCE);
            let Some(last) = names.last() else { return Ok(()) };
            last.as_str().clone_into(&mut after);
            let began = self.now();
            for (tag, finding) in self.compare(&names, began).await? {
                if self.0.stop.is_cancelled() || !self.store_is_open() {
                    return Ok(());
                }
                self.mend(&tag, finding, began).await;
            }
        }
    }

    /// Says of which tags something has to be done.
    async fn compare(
        &self,
        names: &[BizTag],
        began: Duration,
    ) -> Result<Vec<(Arc<Tag>, Finding)>, StoreError> {
        let outcome = self.0.store.find(names).await;
        if let Err(StoreError::Down(error)) = &outcome {
            self.note_down(began, error);
        }
        let rows: HashMap<_, _> = outcome?.into_iter().map(|row| (row.tag.clone(), row)).collect();
        let mut findings = Vec::new();
        for tag in self.known_of(names, &rows) {
            let row = rows.get(tag.name().as_str());
            let finding = Finding::of(&tag.lock().segment.view(), row, began);
            if let Some(row) = row {
                self.saw(&tag, row);
            }
            if finding != Finding::Fine {
                findings.push((tag, finding));
            }
        }
        Ok(findings)
    }

    /// What was read of a row counts as seen, whoever wanted to know it.
    pub(super) fn saw(&self, tag: &Arc<Tag>, row: &Row) {
        let mut inner = tag.lock();
        inner.segment.row_step_is(row.step.natural());
        inner.segment.appeared();
        let news = row.leasable().is_some_and(|start| inner.segment.row_is_at(start));
        drop(inner);
        if news {
            self.attend(tag);
        }
    }

    /// The tags of these names. Removed ones whose row is there again are among them, and lookups of
    /// what is there now may be repeated at once.
    fn known_of(&self, names: &[BizTag], rows: &HashMap<String, Row>) -> Vec<Arc<Tag>> {
        let mut table = lock(&self.0.tags);
        table.sweep_among(names);
        let mut tags = Vec::new();
        for name in names {
            if let Some(tag) = table.get(name.as_str()) {
                tags.push(Arc::clone(tag));
                continue;
            }
            if !rows.contains_key(name.as_str()) {
                continue;
            }
            let mark = table.mark(name);
            if let Some(lookup) = table.get_any(name.as_str()) {
                // It knows the mark too, and may be about to lease.
                lookup.lock().segment.appeared();
            } else if mark > 0 {
                let known = Record { floor: mark, left: RangeQueue::default() };
                let segment = self.restored(known);
                let tag = Arc::new(Tag::new(name.clone(), segment, self.unix_seconds(), None));
                table.insert(name.clone(), Arc::clone(&tag));
                tags.push(tag);
            }
        }
        tags
    }

    /// Looks at the row itself, and does what has to be done. `began` is when the list was asked
    /// for.
    async fn mend(&self, tag: &Arc<Tag>, finding: Finding, began: Duration) {
        let floor = match finding {
            Finding::Fine => return,
            Finding::Behind { floor } => floor,
            // A list may come from a replica that lags; what would be dropped cannot be had back.
            Finding::Gone => 0,
        };
        let asked = self.now();
        match self.0.store.raise(&tag.name, floor).await {
            Ok(Some(from)) => {
                report_backwards(tag, u64::try_from(from).unwrap_or_default(), floor);
            }
            Ok(None) => {}
            Err(StoreError::NoSuchTag) => self.remove(tag, began),
            Err(StoreError::Down(error)) => self.note_down(asked, &error),
            Err(error) => {
                tracing::warn!(tag = tag.name().as_str(), "cannot look after the row: {error}");
            }
        }
    }

    fn remove(&self, tag: &Arc<Tag>, began: Duration) {
        let mut inner = tag.lock();
        let view = inner.segment.view();
        if Finding::of(&view, None, began) == Finding::Gone {
            report_gone(tag, view.remaining);
            inner.segment.removed(self.now());
            drop(inner);
            lock(&self.0.tags).note_removed();
            self.attend(tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(100);

    fn row(max_id: i64) -> Row {
        Row { tag: "a".into(), max_id: max_id.into(), step: 10.into(), description: String::new() }
    }

    /// A tag that was leased up to 5000 before the list was asked for.
    fn used() -> View {
        View {
            row_step: 10,
            leases: Vec::new(),
            position: None,
            remaining: 0,
            issued: 0,
            lease_count: 1,
            last_lease: Some(BEGAN - Duration::from_nanos(1)),
            last_size: 10,
            waiting: 0,
            floor: 5000,
            absent: false,
            leasing: false,
            lease_error: None,
        }
    }

    #[test]
    fn a_row_below_what_was_seen_is_behind_and_one_at_or_above_it_is_fine() {
        let behind = Finding::Behind { floor: 5000 };
        for (max_id, finding) in [
            (i64::MIN, Finding::Fine),
            (1, behind),
            (4999, behind),
            (5000, Finding::Fine),
            (9000, Finding::Fine),
        ] {
            assert_eq!(Finding::of(&used(), Some(&row(max_id)), BEGAN), finding, "{max_id}");
        }
    }

    #[test]
    fn a_tag_without_a_row_is_gone_once() {
        assert_eq!(Finding::of(&used(), None, BEGAN), Finding::Gone);
        let absent = View { absent: true, ..used() };
        assert_eq!(Finding::of(&absent, None, BEGAN), Finding::Fine);
    }

    #[test]
    fn a_list_older_than_a_lease_says_nothing_about_it() {
        let leasing = View { leasing: true, ..used() };
        let leased = View { last_lease: Some(BEGAN), ..used() };
        // After a restart the ends are known, and no lease was taken in this life.
        let restored = View { last_lease: None, lease_count: 0, ..used() };
        for (view, found) in [(leasing, false), (leased, false), (restored, true)] {
            assert_eq!(Finding::of(&view, None, BEGAN) == Finding::Gone, found);
            let row = row(1);
            let finding = Finding::of(&view, Some(&row), BEGAN);
            assert_eq!(finding == Finding::Behind { floor: 5000 }, found);
        }
    }

    #[test]
    fn a_tag_that_was_never_leased_here_needs_nothing() {
        let unused = View { floor: 0, last_lease: None, ..used() };
        assert_eq!(Finding::of(&unused, None, BEGAN), Finding::Fine);
        assert_eq!(Finding::of(&unused, Some(&row(1)), BEGAN), Finding::Fine);
    }
}
