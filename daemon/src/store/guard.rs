//! Looks at every connection: whether it leads to the database that this host's ranges come from.
//! Nothing is leased over a connection that was not let through here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::error::DatabaseError;
use tokio::sync::watch;

use super::BoxFuture;
use super::identity::{IdentityFinding, SeenDatabase, judge};
use crate::state::database::{DatabaseIdentity, RecordedDatabase};
use crate::state::mark::FileMark;

/// Records on disk which database the ranges come from.
pub trait DatabaseRecorder: Send + Sync {
    /// Returns when it is on disk.
    fn record(&self, recorded: RecordedDatabase) -> BoxFuture<'_, Result<(), String>>;
}

/// Why a database is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableDatabase {
    /// It is not the one that the remembered ranges come from. It can be used once those are given
    /// up.
    #[error(
        "this is another database, {}, than the one that this host's ranges come from, {recorded}",
        named(*found)
    )]
    Other {
        /// Where the ranges come from.
        recorded: DatabaseIdentity,
        /// Who it says it is.
        found: Option<DatabaseIdentity>,
    },
    /// It was replaced while leafd worked with it.
    #[error(
        "the database was replaced while leafd ran: it was {before}, and now it is {}. Bring the \
         right one back, or restart leafd to use this one above everything this host has issued",
        named(*found)
    )]
    Swapped {
        /// Who it was.
        before: DatabaseIdentity,
        /// Who it says it is.
        found: Option<DatabaseIdentity>,
    },
    /// Embedded: the file is a copy, or comes from a backup. Its rows may be older than what was
    /// issued.
    #[error(
        "{what}, so its rows may be older than what was issued, or the original may still be in \
         use. If no other leafd uses it, take it over above everything that was ever issued with \
         `leafd adopt --above N`; else bring the right file back"
    )]
    Copied {
        /// What gives it away.
        what: String,
    },
    /// Embedded: what was leased is not in the file any more.
    #[error(
        "{what} although ranges were leased from it; restore it, or let leafd make a new one above \
         everything this host has issued with `leafd adopt`"
    )]
    Lost {
        /// What is not there.
        what: String,
    },
    /// It cannot be recorded, so nothing may be leased from it.
    #[error("cannot record which database this is: {0}")]
    NotRecorded(String),
}

fn named(identity: Option<DatabaseIdentity>) -> String {
    identity.map_or_else(|| "without an identity".to_owned(), |identity| identity.to_string())
}

/// Watches over one store's connections.
pub struct DatabaseGuard {
    recorder: Arc<dyn DatabaseRecorder>,
    state: Mutex<GuardState>,
    /// One look at a time: of two connections to two databases, one is let through.
    turn: tokio::sync::Mutex<()>,
    /// Whether [`UnusableDatabase::Other`] waits for the ranges to be given up.
    other: watch::Sender<bool>,
}

struct GuardState {
    recorded: RecordedDatabase,
    seen: SeenDatabase,
    /// What the last look found wrong.
    unusable: Option<UnusableDatabase>,
}

impl std::fmt::Debug for DatabaseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl DatabaseGuard {
    /// `recorded` is what the disk says of the database at the configured place.
    #[must_use]
    pub fn new(recorded: RecordedDatabase, recorder: Arc<dyn DatabaseRecorder>) -> Arc<Self> {
        let state = GuardState { recorded, seen: SeenDatabase::Nothing, unusable: None };
        Arc::new(Self {
            recorder,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            other: watch::Sender::new(false),
        })
    }

    /// Knows of no database and records nothing, for stores without a state directory.
    #[must_use]
    pub fn unrecorded() -> Arc<Self> {
        struct Nowhere;
        impl DatabaseRecorder for Nowhere {
            fn record(&self, _: RecordedDatabase) -> BoxFuture<'_, Result<(), String>> {
                Box::pin(async { Ok(()) })
            }
        }
        Self::new(RecordedDatabase::default(), Arc::new(Nowhere))
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is recorded of the database.
    #[must_use]
    pub fn recorded(&self) -> RecordedDatabase {
        self.state().recorded
    }

    /// Why the database is not used, as far as a connection has shown.
    #[must_use]
    pub fn unusable(&self) -> Option<UnusableDatabase> {
        self.state().unusable.clone()
    }

    /// Whether the database is known to have an identity, so that one without is not it.
    pub(super) fn expects_identity(&self) -> bool {
        let state = self.state();
        state.recorded.identity.is_some() || matches!(state.seen, SeenDatabase::Named(_))
    }

    /// Whether this process has worked with the database.
    pub(super) fn has_seen_one(&self) -> bool {
        self.state().seen != SeenDatabase::Nothing
    }

    /// A shared database that has no identity.
    pub(super) fn is_nameless(&self) -> bool {
        self.state().seen == SeenDatabase::Nameless
    }

    /// Remembers why a connection cannot be used.
    pub(super) fn refuse(&self, unusable: UnusableDatabase) -> UnusableDatabase {
        self.state().unusable = Some(unusable.clone());
        unusable
    }

    /// Lets a connection to the database `found` through, or says why not.
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
        // An earlier look may have shown another one: nothing has to be given up for it any more.
        self.other.send_replace(false);
    }

    /// Waits until the first look shows another database than the recorded one.
    pub async fn other_found(&self) {
        // Its sender lives as long as this.
        let _ = self.other.subscribe().wait_for(|other| *other).await;
    }

    /// The ranges of the recorded database are given up, on disk as well: from now on this host
    /// works with the one that was found.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub async fn use_other(&self) -> Result<(), String> {
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

/// Lets a connection to a shared database through that has answered the question for its identity
/// so. `is_nameless` tells the error of a database that has none.
pub(super) async fn check_shared(
    guard: &DatabaseGuard,
    answer: Result<Option<String>, sqlx::Error>,
    is_nameless: impl Fn(&dyn DatabaseError) -> bool,
) -> Result<(), sqlx::Error> {
    let text = match answer {
        Ok(text) => text,
        Err(sqlx::Error::Database(error)) if is_nameless(&*error) => None,
        Err(error) => return Err(error),
    };
    let identity = text.map(|text| text.trim().parse::<DatabaseIdentity>()).transpose();
    let identity = identity.map_err(|error| sqlx::Error::Configuration(error.into()))?;
    Ok(guard.check(identity, None).await?)
}

impl From<UnusableDatabase> for sqlx::Error {
    fn from(unusable: UnusableDatabase) -> Self {
        Self::Configuration(unusable.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_another_one_stood_in_for_is_used_again_and_nothing_is_given_up_over_and_over()
     {
        let [ours, other] =
            [DatabaseIdentity::random(), DatabaseIdentity::random()].map(|made| made.ok());
        let recorded = RecordedDatabase { identity: ours, file: None };
        let guard = DatabaseGuard::unrecorded();
        guard.state().recorded = recorded;
        assert!(guard.check(other, None).await.is_err());
        // While the ranges are being given up, a connection leads to the right one again.
        guard.check(ours, None).await.unwrap();
        guard.use_other().await.unwrap();
        let waits = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(waits, guard.other_found()).await.is_err());
        assert_eq!((guard.recorded(), guard.unusable()), (recorded, None));
    }
}
