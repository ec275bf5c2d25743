//! The settings for requests that can change while leafd runs, whichever transport they arrive on.
//! A reload replaces all of them at once and increments their edition. A session keeps the policy
//! that it last read, and compares one number to learn whether that is still the one in force.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leaf_client::form::public::KeyRing;
use wildmatch::WildMatch;

use crate::access::rules::{AccessRules, TagQuota};
use crate::access::tokens::Tokens;

/// Limits on requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLimits {
    /// Requests of one connection that may wait for their answers.
    pub(crate) max_in_flight: usize,
    /// IDs in one request.
    pub(crate) max_count: u32,
    /// How long a request waits that names no timeout.
    pub(crate) wait: Duration,
    /// The longest timeout that a request gets, whatever it names.
    pub(crate) max_wait: Duration,
}

/// Everything that a reload can change for requests.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) limits: RequestLimits,
    pub(crate) access: AccessRules,
    /// Limits of tags, for all users together. The first that matches a tag applies.
    pub(crate) tags: Vec<TagQuota>,
    /// Bearer tokens, each of which belongs to a rule of `access`.
    pub(crate) tokens: Tokens,
    /// The keys of public IDs, if leafd has any.
    pub(crate) public_keys: Option<KeyRing>,
    /// Patterns of the tags that have metrics of their own.
    pub(crate) metrics_tags: Vec<WildMatch>,
}

/// The policy in force.
#[derive(Debug)]
pub(super) struct CurrentPolicy {
    policy: RwLock<Arc<Policy>>,
    edition: AtomicU64,
}

/// The policy as a session last read it.
#[derive(Debug, Clone)]
pub(super) struct KnownPolicy {
    pub(super) policy: Arc<Policy>,
    edition: u64,
}

impl CurrentPolicy {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy: RwLock::new(Arc::new(policy)), edition: AtomicU64::new(0) }
    }

    pub(super) fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.edition.fetch_add(1, Ordering::Release);
    }

    pub(super) fn get(&self) -> KnownPolicy {
        // The edition first. If `replace` runs in between, the policy is newer than its edition, and
        // the session reads it once more. The other order could keep an old policy for ever.
        let edition = self.edition.load(Ordering::Acquire);
        let policy = Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner));
        KnownPolicy { policy, edition }
    }

    /// Whether `known` is still in force.
    #[inline]
    pub(super) fn is(&self, known: &KnownPolicy) -> bool {
        self.edition.load(Ordering::Relaxed) == known.edition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_policy_is_noticed_and_read() {
        let second = Duration::from_secs(1);
        let limits =
            RequestLimits { max_in_flight: 1, max_count: 1, wait: second, max_wait: second };
        let access = AccessRules { rules: vec![], own_uid: 1, quota: Default::default() };
        let current = CurrentPolicy::new(Policy {
            limits,
            access: access.clone(),
            tags: vec![],
            tokens: Tokens::default(),
            public_keys: None,
            metrics_tags: vec![],
        });
        let known = current.get();
        assert!(current.is(&known));
        let limits = RequestLimits { max_count: 2, ..limits };
        let tokens = Tokens::default();
        let (tags, public_keys, metrics_tags) = (vec![], None, vec![]);
        current.replace(Policy { limits, access, tags, tokens, public_keys, metrics_tags });
        assert!(!current.is(&known));
        let known = current.get();
        assert!(current.is(&known));
        assert_eq!(known.policy.limits.max_count, 2);
    }
}
