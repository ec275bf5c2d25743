//! Several independent databases, of which any one that works is enough (`store.kind = "several"`). Each
//! has a share of the IDs of every tag (`share.rs`), in tables of its own, so that no lease of one can
//! meet a lease of another. Leases come from the first database of the list that works, above everything
//! that this host has seen, so IDs go on rising when another database takes over.
//!
//! `members.rs` decides which database to try, and `asking.rs` asks; `calls.rs` has the calls about tags;
//! `division.rs` how databases get their shares.

mod asking;
mod calls;
pub(crate) mod division;
mod member;
mod members;
mod share;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use member::{ListedShares, MemberPlace, MemberStore};
pub(crate) use share::{BLOCK, Division, Membership, SHARES, Share, ShareRange};

use self::members::Members;
use super::{
    BoxFuture, CreatedTag, DatabaseCount, DatabaseGuard, DeletedTag, LeaseAsk, Leased, NewTag, Row,
    Store, StoreError,
};
use crate::environment::Environment;
use crate::ids::BizTag;

/// How often due looks are begun.
const TICK: Duration = Duration::from_millis(500);

/// All databases, as one store.
pub(super) struct Several {
    described: String,
    stores: Vec<Arc<dyn MemberStore>>,
    shares: Arc<ListedShares>,
    guard: Arc<DatabaseGuard>,
    environment: Environment,
    /// How long one part of a call to one database may take.
    timeout: Duration,
    members: Mutex<Members>,
    /// Where each tag's row stood in each database, at least. A row below that has lost leases.
    marks: Mutex<HashMap<BizTag, Vec<u64>>>,
    /// When a tag was told of which some databases have no row, since the boot.
    told_missing: Mutex<Option<Duration>>,
}

/// What [`open`] needs besides the databases.
pub(super) struct SeveralParts {
    pub(super) described: String,
    pub(super) shares: Arc<ListedShares>,
    pub(super) guard: Arc<DatabaseGuard>,
    pub(super) environment: Environment,
    pub(super) timeout: Duration,
}

/// One store from several databases, which looks after all of them.
///
/// # Panics
/// Outside of a runtime.
pub(super) fn open(stores: Vec<Arc<dyn MemberStore>>, parts: SeveralParts) -> Arc<dyn Store> {
    let SeveralParts { described, shares, guard, environment, timeout } = parts;
    let several = Arc::new(Several {
        described,
        members: Mutex::new(Members::new(stores.len())),
        stores,
        shares,
        guard,
        environment,
        timeout,
        marks: Mutex::default(),
        told_missing: Mutex::default(),
    });
    let weak = Arc::downgrade(&several);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(several) = weak.upgrade() else { return };
            let due = several.members().poll_looks(several.now());
            for index in due {
                let several = Arc::clone(&several);
                tokio::spawn(async move { several.look_at(index).await });
            }
        }
    });
    several
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Several {
    fn members(&self) -> MutexGuard<'_, Members> {
        lock(&self.members)
    }

    /// The time since the boot.
    fn now(&self) -> Duration {
        Duration::from_millis(self.environment.boot_ms())
    }

    fn order(&self) -> Vec<usize> {
        self.members().order()
    }

    /// A database by its place in the list, with this place.
    fn stores(&self) -> impl Iterator<Item = (usize, &dyn MemberStore)> {
        self.stores.iter().map(|store| &**store).enumerate()
    }

    /// Looks at a database that nobody used, or that fails, as a lease would use it.
    async fn look_at(&self, index: usize) {
        if let Some(store) = self.stores.get(index) {
            let works = self.members().works(index);
            let outcome = if works { store.look().await } else { store.probe().await };
            self.note(index, outcome.as_ref().err(), true);
        }
        self.members().looked(index);
    }

    /// Where a tag's row stood in a database when it was last seen.
    fn mark(&self, tag: &BizTag, index: usize) -> u64 {
        let marks = lock(&self.marks);
        marks.get(tag).and_then(|marks| marks.get(index)).copied().unwrap_or(0)
    }

    fn note_mark(&self, tag: &BizTag, index: usize, mark: u64) {
        let mut marks = lock(&self.marks);
        if let Some(marks) = marks.get_mut(tag) {
            if let Some(known) = marks.get_mut(index) {
                *known = mark.max(*known);
            }
            return;
        }
        let mut fresh = vec![0; self.stores.len()];
        if let Some(known) = fresh.get_mut(index) {
            *known = mark;
        }
        marks.insert(tag.clone(), fresh);
    }

    /// Leases from one database. A row that is only behind the others' has lost nothing.
    async fn lease_from(
        &self,
        index: usize,
        store: &dyn MemberStore,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let mark = self.mark(tag, index);
        let ask = LeaseAsk { floor: ask.floor.max(mark), ..ask };
        let leased = store.lease(tag, ask).await?;
        self.note_mark(tag, index, leased.lease.range.end());
        // The highest ID that this host has seen tells who gave it, also after a restart.
        let gave_highest = self.shares.of(index).is_some_and(|share| share.owns_below(ask.floor));
        let mark = if gave_highest { ask.floor } else { mark };
        let lost = leased.moved_from.filter(|found| *found < mark);
        if lost.is_some() {
            self.tell_lost(index, tag, mark);
        }
        Ok(Leased { moved_from: lost, ..leased })
    }

    fn tell_lost(&self, index: usize, tag: &BizTag, mark: u64) {
        tracing::error!(
            database = index + 1,
            tag = tag.as_str(),
            mark,
            "this database of the store has lost leases; the other databases have not"
        );
    }
}

impl Store for Several {
    fn describe(&self) -> String {
        let members = self.members();
        let failing: Vec<_> = members.failing().map(|(index, _)| (index + 1).to_string()).collect();
        match failing.len() {
            0 => self.described.clone(),
            1 => format!("{} (number {} fails)", self.described, failing.join("")),
            _ => format!("{} (numbers {} fail)", self.described, failing.join(" and ")),
        }
    }

    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        Some(&self.guard)
    }

    fn databases(&self) -> Option<DatabaseCount> {
        let failing = self.members().failing().count();
        Some(DatabaseCount { all: self.stores.len(), failing })
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        Box::pin(self.first(move |index, store| Box::pin(self.lease_from(index, store, tag, ask))))
    }

    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.any(false, |store| store.look()))
    }

    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.first(move |_, store| store.prove(tag)))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.any(true, |store| store.probe()))
    }

    fn page<'a>(
        &'a self,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.merged_page(after, limit))
    }

    fn find<'a>(&'a self, tags: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.find_rows(tags))
    }

    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.merged_row(tag))
    }

    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>> {
        Box::pin(self.create_everywhere(tag, new))
    }

    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>> {
        Box::pin(self.delete_everywhere(tag, floor))
    }

    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>> {
        Box::pin(self.raise_lost(tag, floor))
    }

    fn set_step<'a>(
        &'a self,
        tag: &'a BizTag,
        step: u64,
    ) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.set_step_everywhere(tag, step))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            futures_util::future::join_all(self.stores().map(|(_, store)| store.close())).await;
        })
    }
}
