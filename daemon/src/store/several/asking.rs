//! How several databases are asked: one after the other until one succeeds, or all at once; and what
//! their answers say about them.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::{MemberStore, Several};
use crate::store::{BoxFuture, StoreError};

/// How long a probe that has succeeded waits for the databases before that one in the list. When all
/// of them come back together, leases then come from the first one again, and IDs skip no round of blocks.
const TOGETHER: Duration = Duration::from_millis(250);

impl Several {
    /// What the outcome of a call says about its database. Only a call that `proves` that leases would
    /// work ends a failure.
    pub(super) fn note(&self, index: usize, error: Option<&StoreError>, proves: bool) {
        let now = self.now();
        if let Some(StoreError::Down(why)) = error {
            if self.members().failed(index, now, why) {
                tracing::warn!(
                    database = index + 1,
                    of = self.stores.len(),
                    "one of the store's databases fails; leases come from the others: {why}"
                );
            }
        } else if (proves || self.members().works(index)) && self.members().worked(index, now) {
            tracing::info!(
                database = index + 1,
                of = self.stores.len(),
                "one of the store's databases works again"
            );
        }
    }

    /// A call on one database. If it worked so far and fails at once, its open connections may lead nowhere,
    /// because it was restarted while nobody used it; the second call opens a new one.
    async fn twice<'a, T>(
        &'a self,
        index: usize,
        call: impl Fn() -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let worked = self.members().works(index);
        let began = self.environment.now();
        let failed_at_once = || self.environment.since(began) < self.timeout / 2;
        match call().await {
            Err(StoreError::Down(_)) if worked && failed_at_once() => call().await,
            outcome => outcome,
        }
    }

    /// Makes a call on one database after the other until one succeeds. If one does not answer for a
    /// while, the next one is asked beside it, so that neither a database that hangs nor many distant
    /// ones make the call fail.
    pub(super) async fn first<'a, T>(
        &'a self,
        call: impl Fn(usize, &'a dyn MemberStore) -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = self.environment.now();
        // As every store promises.
        let patience = self.timeout * 5 / 2;
        let mut waiting = self.order().into_iter();
        let count = u32::try_from(self.stores.len()).unwrap_or(u32::MAX).max(1);
        let pause = self.timeout.min(patience / count);
        let mut asked: Vec<(usize, Instant)> = Vec::new();
        let mut calls = FuturesUnordered::new();
        let mut failures = Vec::new();
        let mut next_at = began;
        loop {
            if (calls.is_empty() || self.environment.now() >= next_at)
                && let Some(index) = waiting.next()
                && let Some(store) = self.stores.get(index)
            {
                asked.push((index, self.environment.now()));
                let call = &call;
                calls.push(
                    async move { (index, self.twice(index, || call(index, &**store)).await) },
                );
                next_at = self.environment.now() + pause;
                continue;
            }
            if calls.is_empty() {
                return Err(common(failures));
            }
            let may_ask = waiting.len() > 0;
            tokio::select! {
                Some((index, outcome)) = calls.next() => {
                    asked.retain(|(known, _)| *known != index);
                    self.note(index, outcome.as_ref().err(), true);
                    match outcome {
                        Ok(value) => {
                            self.note_silent(&asked, self.timeout);
                            return Ok(value);
                        }
                        Err(error) => failures.push(error),
                    }
                }
                () = tokio::time::sleep_until(next_at), if may_ask => {}
                () = tokio::time::sleep_until(began + patience) => {
                    failures.extend(self.note_silent(&asked, Duration::ZERO));
                    return Err(common(failures));
                }
            }
        }
    }

    /// The databases that were asked and have not answered for this long do not work.
    fn note_silent(&self, asked: &[(usize, Instant)], for_: Duration) -> Vec<StoreError> {
        let mut failures = Vec::new();
        for (index, since) in asked {
            let silent = self.environment.since(*since);
            let Some(store) = self.stores.get(*index).filter(|_| silent >= for_) else { continue };
            let ms = silent.as_millis();
            let why = format!("{}: no answer within {ms} ms (store.timeout)", store.describe());
            let error = StoreError::Down(why);
            self.note(*index, Some(&error), true);
            failures.push(error);
        }
        failures
    }

    /// The places of the databases to ask: of those that work, or of all.
    fn places(&self, all: bool) -> Vec<usize> {
        let members = self.members();
        let every = 0..self.stores.len();
        let wanted: Vec<_> = every.clone().filter(|index| all || members.works(*index)).collect();
        if wanted.is_empty() { every.collect() } else { wanted }
    }

    /// Makes a call on all databases at once, on those that fail only with `all`.
    pub(super) async fn each<'a, T>(
        &'a self,
        all: bool,
        call: impl Fn(&'a dyn MemberStore) -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Vec<(usize, Result<T, StoreError>)> {
        let places = self.places(all);
        let asked = self.stores().filter(|(index, _)| places.contains(index));
        let call = &call;
        let calls = asked
            .map(|(index, store)| async move { (index, self.twice(index, || call(store)).await) });
        let outcomes = join_all(calls).await;
        for (index, outcome) in &outcomes {
            self.note(*index, outcome.as_ref().err(), false);
        }
        outcomes
    }

    /// As [`Self::each`], for a call that proves that leases would work. Ends with the first success, or a
    /// moment later if a database that is preferred has not answered: one that hangs must not hold up the
    /// others.
    pub(super) async fn any<'a>(
        &'a self,
        all: bool,
        call: impl Fn(&'a dyn MemberStore) -> BoxFuture<'a, Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let places = self.places(all);
        let asked = self.stores().filter(|(index, _)| places.contains(index));
        let call = &call;
        let mut calls: FuturesUnordered<_> = asked
            .map(|(index, store)| async move { (index, self.twice(index, || call(store)).await) })
            .collect();
        let mut waiting = places.clone();
        let mut failures = Vec::new();
        let mut succeeded: Option<(usize, Instant)> = None;
        loop {
            let until = match succeeded {
                Some((index, _)) if !waiting.iter().any(|other| *other < index) => return Ok(()),
                Some((_, at)) => Some(at + TOGETHER),
                None => None,
            };
            let answered = match until {
                Some(until) => match timeout_at(until, calls.next()).await {
                    Ok(answered) => answered,
                    Err(_) => return Ok(()),
                },
                None => calls.next().await,
            };
            let Some((index, outcome)) = answered else { return Err(common(failures)) };
            waiting.retain(|other| *other != index);
            self.note(index, outcome.as_ref().err(), true);
            match outcome {
                Ok(()) => {
                    let (best, at) = succeeded.unwrap_or((index, self.environment.now()));
                    succeeded = Some((best.min(index), at));
                }
                Err(error) => failures.push(error),
            }
        }
    }
}

/// What the failures of all databases mean together. A tag is unknown only if all of them say so.
pub(super) fn common(failures: Vec<StoreError>) -> StoreError {
    let rank = |error: &StoreError| match error {
        StoreError::BadRow(_) | StoreError::NotSetUp(_) => 0,
        StoreError::Exists => 1,
        StoreError::Busy(_) => 2,
        StoreError::Down(_) => 3,
        StoreError::NoSuchTag => 4,
    };
    let all_down = failures.iter().all(|error| matches!(error, StoreError::Down(_)));
    let lacks_tag = failures.contains(&StoreError::NoSuchTag);
    let down: Vec<String> = failures
        .iter()
        .filter(|error| matches!(error, StoreError::Down(_)))
        .map(ToString::to_string)
        .collect();
    if all_down {
        return StoreError::Down(down.join("; "));
    }
    match failures.into_iter().min_by_key(rank) {
        Some(StoreError::Down(_)) if lacks_tag => StoreError::Busy(format!(
            "the databases that answer do not have the tag, and the others may: {}",
            down.join("; ")
        )),
        Some(error) => error,
        None => StoreError::Down("the store has no database".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_unknown_only_if_every_database_says_so() {
        let down = || StoreError::Down("a is down".into());
        let busy = || StoreError::Busy("locked".into());
        assert_eq!(
            common(vec![StoreError::NoSuchTag, StoreError::NoSuchTag]),
            StoreError::NoSuchTag
        );
        let told = common(vec![down(), StoreError::NoSuchTag]);
        assert!(matches!(&told, StoreError::Busy(text) if text.contains("a is down")), "{told:?}");
        assert_eq!(common(vec![StoreError::NoSuchTag, busy(), down()]), busy());
        assert_eq!(
            common(vec![down(), StoreError::Down("b is down".into())]),
            StoreError::Down("a is down; b is down".into())
        );
        let bad = StoreError::BadRow("step is 0".into());
        assert_eq!(common(vec![bad.clone(), down()]), bad);
    }
}
