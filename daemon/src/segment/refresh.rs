//! The refresh: keeps memory in step with the store's rows. A tag without a row is no longer
//! served; a row that went backwards is moved forward; what a row says counts as seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::ErrorCode;
use tokio::time::MissedTickBehavior;

use super::lease::log_gone;
use super::list::Walk;
use super::messages::BufferView;
use super::service::{Segments, lock};
use super::tag::Tag;
use crate::ids::BizTag;
use crate::store::{FIND_AT_ONCE, Row, StoreError};

/// What its row says about a tag in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFinding {
    Fine,
    /// The row is below what this host has seen.
    Behind {
        high_water_mark: u64,
    },
    Gone,
}

impl RowFinding {
    /// Compares a tag with its row. The rows were asked for at `began`.
    fn of(view: &BufferView, row: Option<&Row>, began: Duration) -> Self {
        // The rows may be older than a lease in flight, or one that was taken after `began`.
        let fresh = view.leasing || view.last_lease.is_some_and(|last| last >= began);
        match row {
            // This host has never leased from the tag.
            _ if fresh || view.high_water_mark == 0 => Self::Fine,
            Some(row) => match row.max_id.get().map(u64::try_from) {
                Some(Ok(max_id)) if max_id < view.high_water_mark => {
                    Self::Behind { high_water_mark: view.high_water_mark }
                }
                // A value that makes no sense is not repaired silently: the next lease reports it.
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
            self.retire_past_days().await;
            // A store that comes back causes a refresh.
            if !self.store_is_open() {
                continue;
            }
            let outcome = self.refresh().await;
            if let Err(why) = &outcome
                && !failing
            {
                let error = ErrorCode::StoreUnavailable;
                tracing::warn!(%error, "cannot read the list of tags, will retry: {why}");
            }
            failing = outcome.is_err();
        }
    }

    /// Nobody polls an idle tag: without this, its last burst would count for ever. And nobody would know when
    /// a tag was last used whose range lasts for long.
    async fn note_rates(&self) {
        let mut walk = Walk::default();
        while let Some(tags) = walk.next(self) {
            let (now, unix_s) = (self.now(), self.unix_seconds());
            for tag in tags {
                let mut state = tag.lock();
                state.buffer.note_rate(now);
                state.note_use(now, unix_s);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Compares memory with the rows, some at a time. It does not read rows of other tags, so their
    /// number does not matter.
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
                self.repair(&tag, finding, began).await;
            }
        }
    }

    /// The tags that need something done.
    async fn compare(
        &self,
        names: &[BizTag],
        began: Duration,
    ) -> Result<Vec<(Arc<Tag>, RowFinding)>, StoreError> {
        let outcome = self.0.store.find(names).await;
        if let Err(StoreError::Down(error)) = &outcome {
            self.note_down(began, error);
        }
        let rows: HashMap<_, _> = outcome?.into_iter().map(|row| (row.tag.clone(), row)).collect();
        let mut findings = Vec::new();
        for tag in self.known_of(names, &rows) {
            let row = rows.get(tag.name().as_str());
            let finding = RowFinding::of(&tag.lock().buffer.view(), row, began);
            if let Some(row) = row {
                self.saw(&tag, row);
            }
            if finding != RowFinding::Fine {
                findings.push((tag, finding));
            }
        }
        Ok(findings)
    }

    /// A row was read. What it says counts as seen, whoever wanted to read it.
    pub(super) fn saw(&self, tag: &Arc<Tag>, row: &Row) {
        let mut state = tag.lock();
        state.buffer.row_step_is(row.step.natural());
        state.buffer.appeared();
        let raised = row.leasable().is_some_and(|start| state.buffer.row_is_at(start));
        drop(state);
        if raised {
            self.attend(tag);
        }
    }

    /// The tags of these names, including removed ones whose row is back. Lookups whose row has
    /// appeared may be retried at once.
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
            let mark = table.removed_mark(name);
            if let Some(lookup) = table.get_any(name.as_str()) {
                // It has the mark too, and may be about to lease.
                lookup.lock().buffer.appeared();
            } else if mark > 0 {
                let buffer = self.empty_buffer(mark);
                let tag = Arc::new(Tag::new(name.clone(), buffer, self.unix_seconds(), None));
                table.insert(name.clone(), Arc::clone(&tag));
                tags.push(tag);
            }
        }
        tags
    }

    /// Repairs what the rows showed, after another look at the row itself. The rows were asked for
    /// at `began`.
    async fn repair(&self, tag: &Arc<Tag>, finding: RowFinding, began: Duration) {
        let mark = match finding {
            RowFinding::Fine => return,
            RowFinding::Behind { high_water_mark } => high_water_mark,
            // The rows may come from a replica that lags, and dropped IDs do not come back.
            RowFinding::Gone => 0,
        };
        let asked = self.now();
        match self.0.store.raise(tag.name(), mark).await {
            Ok(Some(from)) => {
                self.log_backwards(tag, u64::try_from(from).unwrap_or_default(), mark);
            }
            Ok(None) => {}
            Err(StoreError::NoSuchTag) => self.remove(tag, began),
            Err(StoreError::Down(error)) => self.note_down(asked, &error),
            Err(error) => {
                tracing::warn!(tag = tag.name().as_str(), "cannot check the row: {error}");
            }
        }
    }

    fn remove(&self, tag: &Arc<Tag>, began: Duration) {
        let mut state = tag.lock();
        let view = state.buffer.view();
        if RowFinding::of(&view, None, began) == RowFinding::Gone {
            log_gone(tag, &view);
            state.buffer.row_is_gone(self.now(), self.0.settings.auto_create);
            let removed = state.buffer.counts().absent;
            drop(state);
            if removed {
                lock(&self.0.tags).note_removed();
            }
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

    /// A tag that was leased up to 5000 before the rows were asked for.
    fn used() -> BufferView {
        BufferView {
            row_step: 10,
            lease_count: 1,
            last_lease: Some(BEGAN - Duration::from_nanos(1)),
            last_size: 10,
            high_water_mark: 5000,
            ..BufferView::default()
        }
    }

    #[test]
    fn a_row_below_what_was_seen_is_behind_and_one_at_or_above_it_is_fine() {
        let behind = RowFinding::Behind { high_water_mark: 5000 };
        for (max_id, finding) in [
            (i64::MIN, RowFinding::Fine),
            (1, behind),
            (4999, behind),
            (5000, RowFinding::Fine),
            (9000, RowFinding::Fine),
        ] {
            assert_eq!(RowFinding::of(&used(), Some(&row(max_id)), BEGAN), finding, "{max_id}");
        }
    }

    #[test]
    fn a_tag_without_a_row_is_gone_once() {
        assert_eq!(RowFinding::of(&used(), None, BEGAN), RowFinding::Gone);
        let absent = BufferView { absent: true, ..used() };
        assert_eq!(RowFinding::of(&absent, None, BEGAN), RowFinding::Fine);
    }

    #[test]
    fn rows_read_before_a_lease_say_nothing_about_it() {
        let leasing = BufferView { leasing: true, ..used() };
        let leased = BufferView { last_lease: Some(BEGAN), ..used() };
        // After a restart the ends are known, and no lease was taken in this life.
        let restored = BufferView { last_lease: None, lease_count: 0, ..used() };
        for (view, found) in [(leasing, false), (leased, false), (restored, true)] {
            assert_eq!(RowFinding::of(&view, None, BEGAN) == RowFinding::Gone, found);
            let row = row(1);
            let finding = RowFinding::of(&view, Some(&row), BEGAN);
            assert_eq!(finding == RowFinding::Behind { high_water_mark: 5000 }, found);
        }
    }

    #[test]
    fn a_tag_that_was_never_leased_here_needs_nothing() {
        let unused = BufferView { high_water_mark: 0, last_lease: None, ..used() };
        assert_eq!(RowFinding::of(&unused, None, BEGAN), RowFinding::Fine);
        assert_eq!(RowFinding::of(&unused, Some(&row(1)), BEGAN), RowFinding::Fine);
    }
}
