//! Looks at every connection: whether it leads to the database that this host's ranges come from.
//! Nothing is leased over a connection that was not let through here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::error::DatabaseError;
use tokio::sync::watch;

use super::BoxFuture;
use super::identity::{Finding, Seen, judge};
use crate::state::database::{Identity, Recorded};
use crate::state::mark::Mark;

/// Records on disk which database the ranges come from.
pub trait Recorder: Send + Sync {
    /// Returns when it is on disk.
    fn record(&self, recorded: Recorded) -> BoxFuture<'_, Result<(), String>>;
}

/// Why a database is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not the one that the remembered ranges come from. It can be used once those are given
    /// up.
    #[error(
        "this is another database, {}, than the one that this host's ranges come from, {recorded}",
        named(*found)
    )]
    Other {
        /// Where the ranges come from.
        recorded: Identity,
        /// Who it says it is.
        found: Option<Identity>,
    },
    /// It was replaced while leafd worked with it.
    #[error(
        "the database was replaced while leafd ran: it was {before}, and now it is {}. Bring the \
         right one back, or restart leafd to use this one above everything this host has issued",
        named(*found)
    )]
    Swapped {
        /// Who it was.
        before: Identity,
        /// Who it says it is.
        found: Option<Identity>,
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

fn named(identity: Option<Identity>) -> String {
    identity.map_or_else(|| "without an identity".to_owned(), |identity| identity.to_string())
}

/// Watches over one store's connections.
pub struct Guard {
    recorder: Arc<dyn Recorder>,
    state: Mutex<State>,
    /// One look at a time: of two connections to two databases, one is let through.
    turn: tokio::sync::Mutex<()>,
    /// Whether [`Unusable::Other`] waits for the ranges to be given up.
    other: watch::Sender<bool>,
}

struct State {
    recorded: Recorded,
    seen: Seen,
    /// What the last look found wrong.
    unusable: Option<Unusable>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl Guard {
    /// `recorded` is what the disk says of the database at the configured place.
    #[must_use]
    pub fn new(recorded: Recorded, recorder: Arc<dyn Recorder>) -> Arc<Self> {
        let state = State { recorded, seen: Seen::Nothing, unusable: None };
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
        impl Recorder for Nowhere {
            fn record(&self, _: Recorded) -> BoxFuture<'_, Result<(), String>> {
                Box::pin(async { Ok(()) })
            }
        }
        Self::new(Recorded::default(), Arc::new(Nowhere))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is recorded of the database.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.state().recorded
    }

    /// Why the database is not used, as far as a connection has shown.
    #[must_use]
    pub fn unusable(&self) -> Option<Unusable> {
        self.state().unusable.clone()
    }

    /// Whether the database is known to have an identity, so that one without is not it.
    pub(super) fn expects_identity(&self) -> bool {
        let state = self.state();
        state.recorded.identity.is_some() || matches!(state.seen, Seen::Named(_))
    }

    /// Whether this process has worked with the database.
    pub(super) fn has_seen_one(&self) -> bool {
        self.state().seen != Seen::Nothing
    }

    /// A shared database that has no identity.
    pub(super) fn is_nameless(&self) -> bool {
        self.state().seen == Seen::Nameless
    }

    /// Remembers why a connection cannot be used.
    pub(super) fn refuse(&self, unusable: Unusable) -> Unusable {
        self.state().unusable = Some(unusable.clone());
        unusable
    }

    /// Lets a connection to the database `found` through, or says why not.
    pub(super) async fn check(
        &self,
        found: Option<Identity>,
        file: Option<Mark>,
    ) -> Result<(), Unusable> {
        let _turn = self.turn.lock().await;
        let (recorded, seen) = {
            let state = self.state();
            (state.recorded, state.seen)
        };
        match judge(recorded.identity, seen, found) {
            Finding::Same => {
                let moved = file.is_some() && recorded.file != file;
                let now = Recorded { identity: found, file: file.or(recorded.file) };
                if moved {
                    self.record(now).await?;
                }
                self.accept(now);
                Ok(())
            }
            Finding::Record(_) => {
                let now = Recorded { identity: found, file };
                self.record(now).await?;
                self.accept(now);
                Ok(())
            }
            Finding::Other => {
                let Some(recorded) = recorded.identity else { return Ok(()) };
                let unusable = self.refuse(Unusable::Other { recorded, found });
                self.other.send_replace(true);
                Err(unusable)
            }
            Finding::Swapped => {
                let Seen::Named(before) = seen else { return Ok(()) };
                Err(self.refuse(Unusable::Swapped { before, found }))
            }
        }
    }

    async fn record(&self, recorded: Recorded) -> Result<(), Unusable> {
        let outcome = self.recorder.record(recorded).await;
        outcome.map_err(|error| self.refuse(Unusable::NotRecorded(error)))
    }

    fn accept(&self, recorded: Recorded) {
        let mut state = self.state();
        state.seen = recorded.identity.map_or(Seen::Nameless, Seen::Named);
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
        let Some(Unusable::Other { found, .. }) = self.unusable() else { return Ok(()) };
        let recorded = Recorded { identity: found, file: None };
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
    guard: &Guard,
    answer: Result<Option<String>, sqlx::Error>,
    is_nameless: impl Fn(&dyn DatabaseError) -> bool,
) -> Result<(), sqlx::Error> {
    let text = match answer {
        Ok(text) => text,
        Err(sqlx::Error::Database(error)) if is_nameless(&*error) => None,
        Err(error) => return Err(error),
    };
    let identity = text.map(|text| text.trim().parse::<Identity>()).transpose();
    let identity = identity.map_err(|error| sqlx::Error::Configuration(error.into()))?;
    Ok(guard.check(identity, None).await?)
}

impl From<Unusable> for sqlx::Error {
    fn from(unusable: Unusable) -> Self {
        Self::Configuration(unusable.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_another_one_stood_in_for_is_used_again_and_nothing_is_given_up_over_and_over()
     {
        let [ours, other] = [Identity::random(), Identity::random()].map(|made| made.ok());
        let recorded = Recorded { identity: ours, file: None };
        let guard = Guard::unrecorded();
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
