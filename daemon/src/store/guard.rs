//! Checks for every connection whether it leads to the database that this host's ranges come from.
//! Nothing is leased over a connection that this did not accept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::BoxFuture;
use super::identity::{IdentityFinding, SeenDatabase, judge};
use super::witness::keeper::WitnessKeeper;
use crate::state::database::{DatabaseIdentity, RecordedDatabase};
use crate::state::mark::FileMark;

/// Records on disk which database the ranges come from.
pub(crate) trait DatabaseRecorder: Send + Sync {
    /// Returns when the record is on disk.
    fn record(&self, recorded: RecordedDatabase) -> BoxFuture<'_, Result<(), String>>;
}

/// Why leafd does not use a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnusableDatabase {
    /// The remembered ranges come from another database. leafd can use this one after it has dropped
    /// them.
    #[error(
        "this is another database: {}, but this host's ranges come from {recorded}",
        named(*found)
    )]
    Other {
        /// The identity of the database that the ranges come from.
        recorded: DatabaseIdentity,
        /// The identity of the database at the configured place.
        found: Option<DatabaseIdentity>,
    },
    /// The database was replaced while leafd worked with it.
    #[error(
        "the database was replaced while leafd ran: it was {before}, and now it is {}. Bring the \
         right one back, or restart leafd, which then uses this one above everything that this host \
         has issued",
        named(*found)
    )]
    Swapped {
        /// The identity of the first database.
        before: DatabaseIdentity,
        /// The identity of the one that is there now.
        found: Option<DatabaseIdentity>,
    },
    /// The file of the embedded store is a copy or comes from a backup. Its rows may be older than
    /// what was issued.
    #[error(
        "{what}, so its rows may be older than what was issued, or the original may still be in \
         use. If no other leafd uses it, run `leafd adopt --above N` with a number above everything \
         that was ever issued; else bring the right file back"
    )]
    Copied {
        /// What shows that it is a copy.
        what: String,
    },
    /// The file of the embedded store no longer knows what was leased from it.
    #[error(
        "{what} although ranges were leased from it; restore it, or run `leafd adopt`, which makes a \
         new one above everything that this host has issued"
    )]
    Lost {
        /// What is missing.
        what: String,
    },
    /// leafd cannot record which database this is, so it leases nothing from it.
    #[error("cannot record which database this is: {0}")]
    NotRecorded(String),
}

fn named(identity: Option<DatabaseIdentity>) -> String {
    identity.map_or_else(|| "without an identity".to_owned(), |identity| identity.to_string())
}

/// Checks the connections of one store.
pub struct DatabaseGuard {
    recorder: Arc<dyn DatabaseRecorder>,
    state: Mutex<GuardState>,
    /// Checks run one at a time: of two connections to two databases, only one is accepted.
    turn: tokio::sync::Mutex<()>,
    /// Notices that the database has lost what it had confirmed, if it has the table for that.
    witness: Option<Arc<WitnessKeeper>>,
    /// Whether [`UnusableDatabase::Other`] waits for leafd to drop the ranges.
    other: watch::Sender<bool>,
}

struct GuardState {
    recorded: RecordedDatabase,
    seen: SeenDatabase,
    /// What the last check found wrong.
    unusable: Option<UnusableDatabase>,
}

impl std::fmt::Debug for DatabaseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl DatabaseGuard {
    /// A guard that knows `recorded`, which the disk says about the database at the configured place.
    #[must_use]
    pub(crate) fn new(
        recorded: RecordedDatabase,
        recorder: Arc<dyn DatabaseRecorder>,
        witness: Option<Arc<WitnessKeeper>>,
    ) -> Arc<Self> {
        let state = GuardState { recorded, seen: SeenDatabase::Nothing, unusable: None };
        Arc::new(Self {
            recorder,
            state: Mutex::new(state),
            witness,
            turn: tokio::sync::Mutex::default(),
            other: watch::Sender::new(false),
        })
    }

    /// A guard that knows no database and records nothing, for stores without a state directory.
    #[must_use]
    pub fn unrecorded() -> Arc<Self> {
        struct Nowhere;
        impl DatabaseRecorder for Nowhere {
            fn record(&self, _: RecordedDatabase) -> BoxFuture<'_, Result<(), String>> {
                Box::pin(async { Ok(()) })
            }
        }
        Self::new(RecordedDatabase::default(), Arc::new(Nowhere), None)
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn witness(&self) -> Option<&Arc<WitnessKeeper>> {
        self.witness.as_ref()
    }

    pub(crate) fn recorded(&self) -> RecordedDatabase {
        self.state().recorded
    }

    /// Why leafd does not use the database, as far as a connection has shown.
    pub(crate) fn unusable(&self) -> Option<UnusableDatabase> {
        self.state().unusable.clone()
    }

    /// Whether the database is known to have an identity, so that one without is another.
    pub(super) fn expects_identity(&self) -> bool {
        let state = self.state();
        state.recorded.identity.is_some() || matches!(state.seen, SeenDatabase::Named(_))
    }

    /// Whether this process has worked with the database.
    pub(super) fn has_seen_one(&self) -> bool {
        self.state().seen != SeenDatabase::Nothing
    }

    /// Whether this process works with a shared database that has no identity.
    pub(super) fn is_nameless(&self) -> bool {
        self.state().seen == SeenDatabase::Nameless
    }

    /// Remembers why leafd cannot use a connection.
    pub(super) fn refuse(&self, unusable: UnusableDatabase) -> UnusableDatabase {
        self.state().unusable = Some(unusable.clone());
        unusable
    }

    /// Accepts a connection to the database `found`, or says why not. `file` is the embedded store's.
    pub(super) async fn check(
        &self,
        found: Option<DatabaseIdentity>,
        file: Option<FileMark>,
    ) -> Result<(), UnusableDatabase> {
        let _turn = self.turn.lock().await;
        let (recorded, seen) = {
            let state = self.state();
            (state.recorded, state.seen)
        };
        match judge(recorded.identity, seen, found) {
            IdentityFinding::Same => {
                let moved = file.is_some() && recorded.file != file;
                let now = RecordedDatabase { identity: found, file: file.or(recorded.file) };
                if moved {
                    self.record(now).await?;
                }
                self.accept(now);
                Ok(())
            }
            IdentityFinding::Record(_) => {
                let now = RecordedDatabase { identity: found, file };
                self.record(now).await?;
                self.accept(now);
                Ok(())
            }
            IdentityFinding::Other => {
                let Some(recorded) = recorded.identity else { return Ok(()) };
                let unusable = self.refuse(UnusableDatabase::Other { recorded, found });
                self.other.send_replace(true);
                Err(unusable)
            }
            IdentityFinding::Swapped => {
                let SeenDatabase::Named(before) = seen else { return Ok(()) };
                Err(self.refuse(UnusableDatabase::Swapped { before, found }))
            }
        }
    }

    async fn record(&self, recorded: RecordedDatabase) -> Result<(), UnusableDatabase> {
        let outcome = self.recorder.record(recorded).await;
        outcome.map_err(|error| self.refuse(UnusableDatabase::NotRecorded(error)))
    }

    fn accept(&self, recorded: RecordedDatabase) {
        let mut state = self.state();
        state.seen = recorded.identity.map_or(SeenDatabase::Nameless, SeenDatabase::Named);
        state.recorded = recorded;
        state.unusable = None;
        drop(state);
        // An earlier check may have found another database. No ranges need to be dropped for it now.
        self.other.send_replace(false);
    }

    /// Waits until the first check finds another database than the recorded one.
    pub(crate) async fn other_found(&self) {
        // The sender lives as long as the guard, so this does not fail.
        let _ = self.other.subscribe().wait_for(|other| *other).await;
    }

    /// From now on this host works with the database that was found. The caller has dropped the ranges
    /// of the recorded one, on disk too.
    ///
    /// # Errors
    /// When the new database cannot be recorded.
    pub(crate) async fn use_other(&self) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        let Some(UnusableDatabase::Other { found, .. }) = self.unusable() else { return Ok(()) };
        let recorded = RecordedDatabase { identity: found, file: None };
        self.recorder.record(recorded).await?;
        let mut state = self.state();
        (state.recorded, state.unusable) = (recorded, None);
        drop(state);
        self.other.send_replace(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_was_replaced_for_a_while_is_used_again_and_ranges_are_not_dropped_repeatedly()
     {
        let [ours, other] = [1, 2].map(DatabaseIdentity::of_number).map(Some);
        let recorded = RecordedDatabase { identity: ours, file: None };
        let guard = DatabaseGuard::unrecorded();
        guard.state().recorded = recorded;
        assert!(guard.check(other, None).await.is_err());
        // While leafd drops the ranges, a connection leads to the right database again.
        guard.check(ours, None).await.unwrap();
        guard.use_other().await.unwrap();
        let waits = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(waits, guard.other_found()).await.is_err());
        assert_eq!((guard.recorded(), guard.unusable()), (recorded, None));
    }
}
