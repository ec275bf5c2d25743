//! Attends to the witness table: looks at it every few seconds, and moves the rows of all tags above what this
//! host knows when an epoch asks for that.

use std::collections::HashMap;
use std::time::Duration;

use super::service::{Segments, lock};
use crate::ids::BizTag;
use crate::store::witness::WitnessStore;
use crate::store::witness::keeper::WitnessNext;
use crate::store::witness::rules::Raised;
use crate::store::{FIND_AT_ONCE, Row, StoreError};

/// Time between two looks at a database that does not have the table.
const WITHOUT_TABLE: Duration = Duration::from_secs(30);

/// Time between two looks while nothing happens. Others that join, or a loss, wait for it.
const SETTLED: Duration = Duration::from_secs(3);

/// Time between two looks while leases wait.
const WAITING: Duration = Duration::from_millis(700);

/// How many looks and visits may follow each other without a pause.
const MOST_HURRIES: u32 = 8;

/// How long a clean stop may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

impl Segments {
    pub(super) async fn attend_to_witness(self) {
        let Some(witness) = self.0.store.witness() else { return };
        let Some(keeper) = witness.keeper() else { return };
        // However a rule may err, it does not busy the database.
        let mut hurries = 0;
        while !self.0.stop.is_cancelled() {
            let next = self.attend_once(witness).await;
            let mut pause = match next {
                Some(WitnessNext::Again) => Duration::ZERO,
                Some(WitnessNext::Raise(target)) => match self.raise_rows(witness, target).await {
                    Ok(()) => {
                        keeper.raised(target);
                        Duration::ZERO
                    }
                    Err(error) => {
                        tracing::debug!("cannot move the rows of all tags yet: {error}");
                        WAITING
                    }
                },
                Some(WitnessNext::Waiting) => WAITING,
                Some(WitnessNext::Settled) => SETTLED,
                Some(WitnessNext::NoTable) => WITHOUT_TABLE,
                None if keeper.is_there() == Some(true) => WAITING,
                None => SETTLED,
            };
            hurries = if pause.is_zero() { hurries + 1 } else { 0 };
            if hurries > MOST_HURRIES {
                (pause, hurries) = (WAITING, 0);
            }
            // Hosts that started together drift apart.
            let pause = pause.mul_f64(0.75 + self.0.environment.random().f64() / 4.0);
            tokio::select! {
                biased;
                () = self.0.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = keeper.wanted(), if pause > WAITING => {}
            }
        }
    }

    /// A look or a visit. `None`: the database did not answer as it should.
    async fn attend_once(&self, witness: &dyn WitnessStore) -> Option<WitnessNext> {
        let begun = self.now();
        let error = match witness.attend().await {
            Ok(next) => return Some(next),
            Err(error) => error,
        };
        match error {
            // Whether a database without the table works, leases find out.
            StoreError::Down(error)
                if witness.keeper().is_some_and(|keeper| keeper.is_there() == Some(true)) =>
            {
                self.note_down(begun, &error);
            }
            error => tracing::debug!("cannot look at the table leafd_witness: {error}"),
        }
        None
    }

    /// Moves the row of every tag to what this host knows of it, or above.
    async fn raise_rows(
        &self,
        witness: &dyn WitnessStore,
        target: Raised,
    ) -> Result<(), StoreError> {
        // What a lease in flight brings has to be known. Until this host has confirmed the epoch, no later one
        // succeeds.
        drop(self.0.lease_gate.write().await);
        let (mut raised, mut example) = (0_u64, None);
        let mut after = String::new();
        loop {
            let names = lock(&self.0.tags).names_after(&after, FIND_AT_ONCE);
            let Some(last) = names.last() else { break };
            last.as_str().clone_into(&mut after);
            let marks = self.marks_of(names);
            let known: Vec<_> = marks.iter().map(|(name, _)| name.clone()).collect();
            let rows = self.0.store.find(&known).await?;
            let rows: HashMap<_, _> = rows.iter().map(|row| (row.tag.as_str(), row)).collect();
            for (name, mark) in marks {
                if is_behind(rows.get(name.as_str()).copied(), mark) {
                    let moved = self.raise_row(witness, &name, mark).await?;
                    raised += u64::from(moved);
                    example = example.or_else(|| moved.then_some(name));
                }
            }
        }
        let epoch = target.epoch;
        if let Some(example) = example {
            tracing::warn!(
                epoch,
                raised,
                tag = example.as_str(),
                "the database had lost leases of this host; leafd moved the rows of these tags forward \
                 before anybody leases again"
            );
        }
        Ok(())
    }

    /// The high-water mark of each tag of these names that this host has leased from.
    fn marks_of(&self, names: Vec<BizTag>) -> Vec<(BizTag, u64)> {
        let table = lock(&self.0.tags);
        let marks = names.into_iter().map(|name| {
            let of_tag = table.get(name.as_str());
            let mark = of_tag.map_or(0, |tag| tag.lock().buffer.counts().high_water_mark);
            let mark = mark.max(table.removed_mark(&name));
            (name, mark)
        });
        marks.filter(|(_, mark)| *mark > 0).collect()
    }

    /// Moves one row forward. A row that is lost leaves a tombstone, above which the tag begins if somebody makes
    /// it again. Returns whether something was lost.
    async fn raise_row(
        &self,
        witness: &dyn WitnessStore,
        name: &BizTag,
        mark: u64,
    ) -> Result<bool, StoreError> {
        match self.0.store.raise(name, mark).await {
            Ok(from) => Ok(from.is_some()),
            Err(StoreError::NoSuchTag) => match witness.bury(name, mark).await {
                Ok(()) => Ok(false),
                Err(StoreError::NotSetUp(why) | StoreError::BadRow(why)) => {
                    tracing::warn!(
                        tag = name.as_str(),
                        mark,
                        "a tag whose row is lost leaves no tombstone, so it may repeat IDs if somebody makes \
                         it again: {why}"
                    );
                    Ok(false)
                }
                Err(error) => Err(error),
            },
            // Nobody leases from it either.
            Err(StoreError::BadRow(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tells the fleet that this host leases nothing from now on, so that no epoch waits for it.
    pub(super) async fn say_goodbye_to_witness(&self) {
        let Some(witness) = self.0.store.witness() else { return };
        if witness.keeper().is_none_or(|keeper| keeper.is_there() != Some(true))
            || !self.store_is_open()
        {
            return;
        }
        let goodbye = async {
            // Whatever is in flight may still bring a lease.
            let _gate = self.0.lease_gate.write().await;
            if let Err(error) = witness.leave().await {
                tracing::debug!("cannot say goodbye in the table leafd_witness: {error}");
            }
        };
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }
}

/// Whether a row is below a mark, or missing. A value that makes no sense is left alone: nobody leases from it.
fn is_behind(row: Option<&Row>, mark: u64) -> bool {
    row.is_none_or(|row| {
        row.max_id.get().and_then(|max_id| u64::try_from(max_id).ok()).is_some_and(|it| it < mark)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_below_the_mark_and_lost_ones_are_behind_and_absurd_ones_are_left_alone() {
        let row = |max_id: i64| Row {
            tag: "a".into(),
            max_id: max_id.into(),
            step: 10.into(),
            description: String::new(),
        };
        for (max_id, behind) in [(0, true), (99, true), (100, false), (101, false), (-1, false)] {
            assert_eq!(is_behind(Some(&row(max_id)), 100), behind, "{max_id}");
        }
        assert!(is_behind(None, 100));
    }
}
