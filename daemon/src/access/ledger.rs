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

/// For so long after its first log line, refusals of one user and kind are logged up to
/// [`RefusalKind::most`] times, and then counted.
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
    administration: Mutex<Refusals>,
}

/// Why leafd refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// A rule does not allow it.
    Forbidden,
    /// It was over a quota.
    Over,
    /// An administrative call was refused: a line of the audit.
    Administration,
}

impl RefusalKind {
    /// Log lines within [`QUIET`].
    const fn most(self) -> u32 {
        match self {
            Self::Forbidden | Self::Over => 1,
            // Each names what was tried; beyond that, a user could fill the log.
            Self::Administration => 20,
        }
    }
}

#[derive(Debug, Default)]
struct Refusals {
    /// When the first of `logged` lines was logged.
    logged_at: Option<Duration>,
    logged: u32,
    /// Refusals since the last line.
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
        let quiet = [&self.forbidden, &self.over, &self.administration]
            .iter()
            .all(|refusals| lock(refusals).logged_at.is_none_or(|at| now >= at + QUIET));
        quiet && self.connections.load(Ordering::Relaxed) == 0 && self.ids.is_at_rest(now)
    }

    /// Whether to log a refusal now. If so, returns how many were not logged since the last time.
    pub(crate) fn tell(&self, kind: RefusalKind, now: Duration) -> Option<u64> {
        let mut refusals = lock(match kind {
            RefusalKind::Forbidden => &self.forbidden,
            RefusalKind::Over => &self.over,
            RefusalKind::Administration => &self.administration,
        });
        if refusals.logged_at.is_none_or(|at| now >= at + QUIET) {
            (refusals.logged_at, refusals.logged) = (Some(now), 0);
        }
        if refusals.logged >= kind.most() {
            refusals.unlogged += 1;
            return None;
        }
        refusals.logged += 1;
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

    #[test]
    fn the_audit_names_the_first_refused_attempts_of_a_user_and_counts_the_others() {
        let user = User::default();
        let tell = |now| user.tell(RefusalKind::Administration, now);
        assert!((0..20).all(|_| tell(NOW) == Some(0)));
        assert!((0..5).all(|_| tell(NOW + QUIET / 2).is_none()));
        assert_eq!((tell(NOW + QUIET), tell(NOW + QUIET)), (Some(5), Some(0)));
    }
}
