//! What all callers share, and how the daemon describes itself in its status.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaf_client::form::public::KeyRing;
use leaf_client::wire::{DaemonStatus, SegmentTotals};
use tokio::runtime::Handle;
use tokio::time::Instant;
use wildmatch::WildMatch;

use super::counts::ServiceCounts;
use super::in_flight::InFlight;
use super::policy::{CurrentPolicy, Policy};
use super::queues::AdministrationQueues;
use crate::access::ledger::Ledger;
use crate::environment::Environment;
use crate::forecast::Forecasts;
use crate::segment::service::Segments;
use crate::snowflake::issuer::Issuer;
use crate::worker::administration::Workers;
use crate::worker::lending::Lending;

/// Answers the calls of every transport. Each transport opens a [`super::session::Session`] for a
/// caller.
pub(crate) struct Service {
    pub(crate) environment: Environment,
    pub(super) segments: Segments,
    pub(super) issuer: Issuer,
    pub(super) workers: Workers,
    pub(super) lending: Lending,
    pub(super) forecasts: Forecasts,
    state_dir: String,
    pub(super) policy: CurrentPolicy,
    pub(super) ledger: Ledger,
    /// The runtime with timers, where requests wait for the store, the disk and their deadlines.
    pub(super) background: Handle,
    started: Instant,
    pub(crate) counts: ServiceCounts,
    pub(super) in_flight: InFlight,
    pub(super) administration: AdministrationQueues,
    totals: Mutex<Option<CachedTotals>>,
}

/// The rooms that do the work.
pub(crate) struct ServiceRooms {
    pub(crate) segments: Segments,
    pub(crate) issuer: Issuer,
    pub(crate) workers: Workers,
    pub(crate) lending: Lending,
    pub(crate) forecasts: Forecasts,
}

/// The clock that quotas go by: it starts with the service.
#[derive(Debug)]
pub(super) struct QuotaClock {
    environment: Environment,
    started: Instant,
}

impl QuotaClock {
    pub(super) fn now(&self) -> Duration {
        self.environment.since(self.started)
    }
}

/// Totals over many tags, and how long it took to add them up.
#[derive(Debug)]
struct CachedTotals {
    began: Instant,
    took: Duration,
    segments: SegmentTotals,
}

/// From this many tags on, totals are cached. Adding up fewer takes a few microseconds.
const CACHED_FROM: u64 = 64;

/// Up to this many tags, the thread that serves adds up the totals itself: that takes less than a
/// tenth of a millisecond.
const MANY_TAGS: usize = 1000;

impl Service {
    /// Serves from now on. Call this in the runtime with timers: requests wait there.
    pub(crate) fn new(
        rooms: ServiceRooms,
        environment: Environment,
        policy: Policy,
        state_dir: String,
    ) -> Self {
        let ServiceRooms { segments, issuer, workers, lending, forecasts } = rooms;
        let started = environment.now();
        Self {
            segments,
            issuer,
            workers,
            lending,
            forecasts,
            environment,
            state_dir,
            policy: CurrentPolicy::new(policy),
            ledger: Ledger::default(),
            background: Handle::current(),
            started,
            counts: ServiceCounts::default(),
            in_flight: InFlight::default(),
            administration: AdministrationQueues::default(),
            totals: Mutex::default(),
        }
    }

    pub(crate) const fn lending(&self) -> &Lending {
        &self.lending
    }

    /// Puts `policy` in force, for sessions that are open as well. Transports change their own limits
    /// first: [`super::session::Session::keep_up`] tells them when to read those again.
    pub(crate) fn change_policy(&self, policy: Policy) {
        self.policy.replace(policy);
    }

    /// The rule of the bearer token `shown`, if it is one.
    pub(crate) fn rule_of_token(&self, shown: &[u8]) -> Option<Arc<str>> {
        self.policy.get().policy.tokens.rule_of(shown)
    }

    /// The keys of public IDs in force, if leafd has any.
    pub(crate) fn public_keys(&self) -> Option<KeyRing> {
        self.policy.get().policy.public_keys.clone()
    }

    /// Sessions, of all transports.
    pub(crate) fn connections(&self) -> u64 {
        self.ledger.connections() as u64
    }

    pub(crate) fn requests_in_flight(&self) -> u64 {
        self.in_flight.count() as u64
    }

    /// Patterns of the tags that have metrics of their own.
    pub(crate) fn metrics_tags(&self) -> Vec<WildMatch> {
        self.policy.get().policy.metrics_tags.clone()
    }

    /// The clock of quotas, for a request that outlives its call.
    pub(super) fn quota_clock(&self) -> QuotaClock {
        QuotaClock { environment: self.environment.clone(), started: self.started }
    }

    /// `now` on the clock of quotas.
    #[inline]
    pub(super) fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// The daemon's status. It holds up the calling thread while it adds up the tags; see
    /// [`Self::can_answer_status_at_once`].
    pub(crate) fn status(&self) -> DaemonStatus {
        let began = self.environment.now();
        let cached = self.cached_totals(began);
        self.status_with(cached.unwrap_or_else(|| self.cache_totals(began, self.segments.totals())))
    }

    /// The daemon's status. With many tags, it yields while it adds them up.
    pub(crate) async fn status_in_turns(&self) -> DaemonStatus {
        let began = self.environment.now();
        let totals = match self.cached_totals(began) {
            Some(totals) => totals,
            None => self.cache_totals(began, self.segments.totals_in_turns().await),
        };
        self.status_with(totals)
    }

    fn status_with(&self, segments: SegmentTotals) -> DaemonStatus {
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.environment.since(self.started).as_millis())
                .unwrap_or(u64::MAX),
            connections: u32::try_from(self.ledger.connections()).unwrap_or(u32::MAX),
            requests: self.counts.requests.for_ids(),
            state_dir: self.state_dir.clone(),
            segments,
            snowflake: self.issuer.status(),
        }
    }

    /// Whether the tags are so few that the thread that serves may call [`Self::status`].
    pub(super) fn can_answer_status_at_once(&self) -> bool {
        self.segments.tags_in_memory() < MANY_TAGS
    }

    /// The last totals, until ten times as long has passed as they took. Everybody who can connect
    /// may ask for the status, so it must not take more than a tenth of a thread.
    fn cached_totals(&self, now: Instant) -> Option<SegmentTotals> {
        let cached = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cached.as_ref().filter(|cached| now < cached.began + cached.took * 10)?;
        Some(cached.segments.clone())
    }

    fn cache_totals(&self, began: Instant, segments: SegmentTotals) -> SegmentTotals {
        let took = self.environment.since(began);
        let cached = (segments.tags >= CACHED_FROM).then(|| CachedTotals {
            began,
            took,
            segments: segments.clone(),
        });
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = cached;
        segments
    }
}
