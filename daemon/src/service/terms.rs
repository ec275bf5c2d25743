//! The terms on which connections are served: what the configuration says and may say differently
//! while leafd runs. Each connection holds those that it last looked at, and looks at one number to
//! see whether they are still in force.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::access::rules::{AccessRules, TagQuota};

/// Bounds on what connections may do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub max_connections: usize,
    /// Requests of one connection that wait.
    pub max_in_flight: usize,
    /// IDs in one request.
    pub max_count: u32,
    /// Bytes of one request.
    pub max_request_bytes: usize,
    /// Without any request.
    pub idle_timeout: Duration,
    /// For a request that has begun, and for the hello.
    pub request_timeout: Duration,
    /// For a reader that does not read.
    pub write_timeout: Duration,
    /// How long a request waits when it does not say.
    pub wait: Duration,
    /// The longest it may say.
    pub max_wait: Duration,
}

/// Everything.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Bounds.
    pub limits: Limits,
    /// Who may do what.
    pub access: AccessRules,
    /// How much may be had of tags.
    pub tags: Vec<TagQuota>,
}

/// The terms in force.
#[derive(Debug)]
pub(crate) struct Current {
    terms: RwLock<Arc<Terms>>,
    edition: AtomicU64,
}

/// The terms as somebody knows them.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) terms: Arc<Terms>,
    edition: u64,
}

impl Current {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms: RwLock::new(Arc::new(terms)), edition: AtomicU64::new(0) }
    }

    pub(super) fn change(&self, terms: Terms) {
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(terms);
        self.edition.fetch_add(1, Ordering::Release);
    }

    pub(super) fn get(&self) -> Known {
        // Terms that are newer than the number are taken once more; older ones cannot be met.
        let edition = self.edition.load(Ordering::Acquire);
        let terms = Arc::clone(&self.terms.read().unwrap_or_else(PoisonError::into_inner));
        Known { terms, edition }
    }

    #[inline]
    pub(super) fn are(&self, known: &Known) -> bool {
        self.edition.load(Ordering::Relaxed) == known.edition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_the_terms_sees_that_they_have_changed() {
        let second = Duration::from_secs(1);
        let limits = Limits {
            max_connections: 1,
            max_in_flight: 1,
            max_count: 1,
            max_request_bytes: 1600,
            idle_timeout: second,
            request_timeout: second,
            write_timeout: second,
            wait: second,
            max_wait: second,
        };
        let access = AccessRules { rules: vec![], own_uid: 1, quota: Default::default() };
        let current = Current::new(Terms { limits, access: access.clone(), tags: vec![] });
        let known = current.get();
        assert!(current.are(&known));
        let limits = Limits { max_count: 2, ..limits };
        current.change(Terms { limits, access, tags: vec![] });
        assert!(!current.are(&known));
        assert!(current.are(&current.get()));
        assert_eq!(current.get().terms.limits.max_count, 2);
    }
}
