//! What each user has open and has had, and what was taken of each tag that has a limit. It outlives
//! connections, so that nobody gets more by connecting again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bucket::Bucket;
use super::turns::Share;

/// The same user's refusals are told once in so long.
const QUIET: Duration = Duration::from_secs(30);

/// So many entries are kept without looking whether they are still needed.
const FEW: usize = 64;

/// All users and tags.
#[derive(Debug, Default)]
pub struct Ledger {
    users: Mutex<Kept<u32, User>>,
    connections: Arc<AtomicUsize>,
    tags: Mutex<Kept<Box<str>, Bucket>>,
}

/// One user.
#[derive(Debug, Default)]
pub struct User {
    connections: AtomicU32,
    /// IDs issued to it, and reserved for it.
    pub ids: Bucket,
    /// Its requests that wait.
    pub waiting: AtomicUsize,
    /// What it has used of the thread that serves the Unix socket.
    pub share: Arc<Share>,
    /// One who is always over a quota is not to hide what else it tries.
    forbidden: Mutex<Refusals>,
    over: Mutex<Refusals>,
}

/// What a refusal was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rule does not allow it.
    Forbidden,
    /// It was too much.
    Over,
}

#[derive(Debug, Default)]
struct Refusals {
    told: Option<Duration>,
    untold: u64,
}

/// A connection of a user, counted as long as this lives.
#[derive(Debug)]
pub struct Visit {
    /// Whose.
    pub user: Arc<User>,
    all: Arc<AtomicUsize>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.user.connections.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ledger {
    /// Counts a connection of the user `uid`, who may have `most`.
    ///
    /// # Errors
    /// With the user when it has that many already.
    pub fn visit(&self, uid: u32, most: Option<u32>, now: Duration) -> Result<Visit, Arc<User>> {
        let user = lock(&self.users).get(uid, |user| user.is_at_rest(now));
        // Check and addition in one step: transports admit callers on different threads.
        let added = user.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            most.is_none_or(|most| open < most).then_some(open + 1)
        });
        if added.is_err() {
            return Err(user);
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Visit { user, all: Arc::clone(&self.connections) })
    }

    /// Open connections of all users.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The user `uid`, without a connection.
    pub fn user(&self, uid: u32, now: Duration) -> Arc<User> {
        lock(&self.users).get(uid, |user| user.is_at_rest(now))
    }

    /// What was taken of `tag`.
    pub fn tag(&self, tag: &str, now: Duration) -> Arc<Bucket> {
        let mut tags = lock(&self.tags);
        match tags.entries.get(tag) {
            Some(bucket) => Arc::clone(bucket),
            None => tags.get(tag.into(), |bucket| bucket.is_at_rest(now)),
        }
    }
}

impl User {
    fn is_at_rest(&self, now: Duration) -> bool {
        let quiet = [&self.forbidden, &self.over]
            .iter()
            .all(|refusals| lock(refusals).told.is_none_or(|told| now >= told + QUIET));
        quiet && self.connections.load(Ordering::Relaxed) == 0 && self.ids.is_at_rest(now)
    }

    /// Whether to tell the log of a refusal: with how many that were not told of.
    pub fn tell(&self, kind: Kind, now: Duration) -> Option<u64> {
        let mut refusals = lock(match kind {
            Kind::Forbidden => &self.forbidden,
            Kind::Over => &self.over,
        });
        if refusals.told.is_some_and(|told| now < told + QUIET) {
            refusals.untold += 1;
            return None;
        }
        refusals.told = Some(now);
        Some(std::mem::take(&mut refusals.untold))
    }
}

/// Entries that somebody holds or that are not at rest. The others go when there are many.
#[derive(Debug)]
struct Kept<K, V> {
    entries: HashMap<K, Arc<V>>,
    /// Look through them at this number.
    many: usize,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), many: FEW }
    }
}

impl<K: Eq + std::hash::Hash, V: Default> Kept<K, V> {
    fn get(&mut self, key: K, at_rest: impl Fn(&V) -> bool) -> Arc<V> {
        if self.entries.len() >= self.many && !self.entries.contains_key(&key) {
            self.entries.retain(|_, entry| Arc::strong_count(entry) > 1 || !at_rest(entry));
            self.many = (self.entries.len() * 2).max(FEW);
        }
        Arc::clone(self.entries.entry(key).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Rate;
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn connections_of_a_user_are_counted_while_they_last() {
        let ledger = Ledger::default();
        let first = ledger.visit(7, Some(2), NOW).unwrap();
        let second = ledger.visit(7, Some(2), NOW).unwrap();
        assert!(ledger.visit(7, Some(2), NOW).is_err());
        assert!(ledger.visit(8, Some(2), NOW).is_ok());
        drop(first);
        let third = ledger.visit(7, Some(2), NOW).unwrap();
        assert!(Arc::ptr_eq(&second.user, &third.user));
        assert!(ledger.visit(7, None, NOW).is_ok());
    }

    #[test]
    fn what_a_user_and_a_tag_have_had_outlives_connections_and_many_others() {
        let ledger = Ledger::default();
        let rate = Rate::new(10).unwrap();
        drop(ledger.visit(7, None, NOW).map(|visit| visit.user.ids.spend(10, rate, NOW)));
        ledger.tag("orders", NOW).spend(10, rate, NOW);
        for other in 1000..2000 {
            drop(ledger.visit(other, None, NOW));
            drop(ledger.tag(&other.to_string(), NOW));
        }
        assert!(ledger.user(7, NOW).ids.check(1, rate, NOW).is_err());
        assert!(ledger.tag("orders", NOW).check(1, rate, NOW).is_err());
    }

    #[test]
    fn what_is_at_rest_takes_no_memory() {
        let ledger = Ledger::default();
        let here = ledger.visit(7, None, NOW).unwrap();
        for other in 1000..100_000 {
            drop(ledger.visit(other, None, NOW));
            drop(ledger.tag(&other.to_string(), NOW));
        }
        assert!(lock(&ledger.users).entries.len() <= 2 * FEW);
        assert!(lock(&ledger.tags).entries.len() <= 2 * FEW);
        assert!(Arc::ptr_eq(&here.user, &ledger.user(7, NOW)));
    }

    #[test]
    fn refusals_of_a_user_are_told_now_and_then_with_their_number() {
        let user = User::default();
        let tell = |now| user.tell(Kind::Over, now);
        assert_eq!(tell(NOW), Some(0));
        assert_eq!(tell(NOW), None);
        assert_eq!(tell(NOW + QUIET / 2), None);
        assert_eq!(tell(NOW + QUIET), Some(2));
        assert_eq!(tell(NOW + QUIET * 2), Some(0));
        assert_eq!(user.tell(Kind::Forbidden, NOW + QUIET * 2), Some(0));
    }
}
