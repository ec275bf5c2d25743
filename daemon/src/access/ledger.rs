//! Counts each user's connections and IDs, and the IDs of each tag with a limit. The counts outlive
//! connections, so that reconnecting gives nobody more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bucket::Bucket;
use super::principal::AccountKey;
use super::turns::Share;
use crate::lock::lock;

/// Minimum interval between log lines for refusals of one user and kind.
const QUIET: Duration = Duration::from_secs(30);

/// Below this number of entries, [`Kept`] does not look for entries to drop.
const FEW: usize = 64;

/// The counts of all users and tags.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    users: Mutex<Kept<AccountKey, User>>,
    connections: Arc<AtomicUsize>,
    tags: Mutex<Kept<Box<str>, Bucket>>,
}

/// The counts of one user.
#[derive(Debug, Default)]
pub(crate) struct User {
    connections: AtomicU32,
    /// IDs issued to it, and reserved for it.
    pub(crate) ids: Bucket,
    /// Number of its requests that wait.
    pub(crate) waiting: AtomicUsize,
    /// Its share of the thread that serves the Unix socket.
    pub(crate) share: Arc<Share>,
    /// Apart from `over`: a user that is always over a quota must not hide what else it tries.
    forbidden: Mutex<Refusals>,
    over: Mutex<Refusals>,
}

/// Why leafd refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// A rule does not allow it.
    Forbidden,
    /// It was over a quota.
    Over,
}

#[derive(Debug, Default)]
struct Refusals {
    logged_at: Option<Duration>,
    /// Refusals since then.
    unlogged: u64,
}

/// A connection of a user, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) user: Arc<User>,
    all: Arc<AtomicUsize>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.user.connections.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ledger {
    /// Counts a connection of `account`, which may have up to `most`.
    ///
    /// # Errors
    /// With the user, if it has that many already.
    pub(crate) fn visit(
        &self,
        account: AccountKey,
        most: Option<u32>,
        now: Duration,
    ) -> Result<Visit, Arc<User>> {
        let user = lock(&self.users).get(account, |user| user.is_at_rest(now));
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
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The user of `account`, without counting a connection.
    pub(crate) fn user(&self, account: AccountKey, now: Duration) -> Arc<User> {
        lock(&self.users).get(account, |user| user.is_at_rest(now))
    }

    /// The bucket of `tag`.
    pub(crate) fn tag(&self, tag: &str, now: Duration) -> Arc<Bucket> {
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
            .all(|refusals| lock(refusals).logged_at.is_none_or(|at| now >= at + QUIET));
        quiet && self.connections.load(Ordering::Relaxed) == 0 && self.ids.is_at_rest(now)
    }

    /// Whether to log a refusal now. If so, returns how many were not logged since the last time.
    pub(crate) fn tell(&self, kind: RefusalKind, now: Duration) -> Option<u64> {
        let mut refusals = lock(match kind {
            RefusalKind::Forbidden => &self.forbidden,
            RefusalKind::Over => &self.over,
        });
        if refusals.logged_at.is_some_and(|at| now < at + QUIET) {
            refusals.unlogged += 1;
            return None;
        }
        refusals.logged_at = Some(now);
        Some(std::mem::take(&mut refusals.unlogged))
    }
}

/// Entries that are in use or not at rest. Others are dropped once there are many.
#[derive(Debug)]
struct Kept<K, V> {
    entries: HashMap<K, Arc<V>>,
    /// Number of entries at which to look for some to drop.
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

#[cfg(test)]
mod tests {
    use super::super::bucket::RateLimit;
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn a_connection_counts_for_its_user_until_it_ends() {
        let ledger = Ledger::default();
        let first = ledger.visit(AccountKey::User(7), Some(2), NOW).unwrap();
        let second = ledger.visit(AccountKey::User(7), Some(2), NOW).unwrap();
        assert!(ledger.visit(AccountKey::User(7), Some(2), NOW).is_err());
        assert!(ledger.visit(AccountKey::User(8), Some(2), NOW).is_ok());
        drop(first);
        let third = ledger.visit(AccountKey::User(7), Some(2), NOW).unwrap();
        assert!(Arc::ptr_eq(&second.user, &third.user));
        assert!(ledger.visit(AccountKey::User(7), None, NOW).is_ok());
    }

    #[test]
    fn counts_of_a_user_and_a_tag_outlive_connections_and_many_others() {
        let ledger = Ledger::default();
        let rate = RateLimit::new(10).unwrap();
        drop(
            ledger
                .visit(AccountKey::User(7), None, NOW)
                .map(|visit| visit.user.ids.spend(10, rate, NOW)),
        );
        ledger.tag("orders", NOW).spend(10, rate, NOW);
        for other in 1000..2000 {
            drop(ledger.visit(AccountKey::User(other), None, NOW));
            drop(ledger.tag(&other.to_string(), NOW));
        }
        assert!(ledger.user(AccountKey::User(7), NOW).ids.check(1, rate, NOW).is_err());
        assert!(ledger.tag("orders", NOW).check(1, rate, NOW).is_err());
    }

    #[test]
    fn entries_at_rest_take_no_memory() {
        let ledger = Ledger::default();
        let here = ledger.visit(AccountKey::User(7), None, NOW).unwrap();
        for other in 1000..100_000 {
            drop(ledger.visit(AccountKey::User(other), None, NOW));
            drop(ledger.tag(&other.to_string(), NOW));
        }
        assert!(lock(&ledger.users).entries.len() <= 2 * FEW);
        assert!(lock(&ledger.tags).entries.len() <= 2 * FEW);
        assert!(Arc::ptr_eq(&here.user, &ledger.user(AccountKey::User(7), NOW)));
    }

    #[test]
    fn refusals_of_a_user_are_logged_now_and_then_with_their_number() {
        let user = User::default();
        let tell = |now| user.tell(RefusalKind::Over, now);
        assert_eq!(tell(NOW), Some(0));
        assert_eq!(tell(NOW), None);
        assert_eq!(tell(NOW + QUIET / 2), None);
        assert_eq!(tell(NOW + QUIET), Some(2));
        assert_eq!(tell(NOW + QUIET * 2), Some(0));
        assert_eq!(user.tell(RefusalKind::Forbidden, NOW + QUIET * 2), Some(0));
    }
}
