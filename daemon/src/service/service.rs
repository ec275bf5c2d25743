//! What every caller is served from, and what the daemon says about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leaf_client::wire::{DaemonStatus, SegmentTotals};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::room::Room;
use super::terms::{Current, Known, Terms};
use super::turns::AdministrationTurns;
use crate::access::ledger::Ledger;
use crate::environment::Environment;
use crate::segment::service::Segments;
use crate::snowflake::issuer::Issuer;
use crate::worker::administration::Workers;

/// What every connection serves from.
pub struct Service {
    /// Segment IDs.
    pub segments: Segments,
    /// Snowflake IDs.
    pub issuer: Issuer,
    /// The worker IDs of all hosts.
    pub workers: Workers,
    /// The host's clock.
    pub environment: Environment,
    /// For status.
    pub state_dir: String,
    pub(super) terms: Current,
    pub(super) ledger: Ledger,
    /// Where timers, the store and the disk are waited for.
    pub(super) background: Handle,
    started: Instant,
    requests: AtomicU64,
    /// Requests that wait, of all connections.
    pub(super) room: Room,
    pub(super) administration: AdministrationTurns,
    /// The totals over many tags, as last added up.
    totals: Mutex<Option<Totals>>,
}

/// The clock of quotas, which began when the service did.
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

/// Totals that took a while.
#[derive(Debug)]
struct Totals {
    began: Instant,
    took: Duration,
    segments: SegmentTotals,
}

/// With fewer tags, adding up takes a few microseconds.
const FEW_TAGS: u64 = 64;

/// With fewer tags, adding up takes less than a tenth of a millisecond.
const MANY_TAGS: usize = 1000;

impl Service {
    /// A service that is ready from now on. What has to wait does so on the runtime that this is
    /// called in.
    #[must_use]
    pub fn new(
        segments: Segments,
        issuer: Issuer,
        workers: Workers,
        environment: Environment,
        terms: Terms,
        state_dir: String,
    ) -> Self {
        let started = environment.now();
        Self {
            segments,
            issuer,
            workers,
            environment,
            state_dir,
            terms: Current::new(terms),
            ledger: Ledger::default(),
            background: Handle::current(),
            started,
            requests: AtomicU64::new(0),
            room: Room::default(),
            administration: AdministrationTurns::default(),
            totals: Mutex::default(),
        }
    }

    /// Puts `terms` in force, for connections that are open as well.
    pub fn change(&self, terms: Terms) {
        self.terms.change(terms);
    }

    /// The terms in force.
    pub(crate) fn terms(&self) -> Known {
        self.terms.get()
    }

    /// Counts requests that were answered.
    #[inline]
    pub(crate) fn count_requests(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// The clock of quotas, for a request that outlives its call.
    pub(super) fn quota_clock(&self) -> QuotaClock {
        QuotaClock { environment: self.environment.clone(), started: self.started }
    }

    /// The clock of quotas.
    #[inline]
    pub(super) fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// How the daemon is; for few tags, since it holds up the thread that it is called in.
    pub(crate) fn status(&self) -> DaemonStatus {
        let began = self.environment.now();
        let last = self.recent_totals(began);
        self.status_with(last.unwrap_or_else(|| self.keep_totals(began, self.segments.totals())))
    }

    /// How the daemon is, with any number of tags.
    pub(crate) async fn status_in_turns(&self) -> DaemonStatus {
        let began = self.environment.now();
        let totals = match self.recent_totals(began) {
            Some(totals) => totals,
            None => self.keep_totals(began, self.segments.totals_in_turns().await),
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
            requests: self.requests.load(Ordering::Relaxed),
            state_dir: self.state_dir.clone(),
            segments,
            snowflake: self.issuer.status(),
        }
    }

    /// Whether [`Self::status`] takes so little time that the serving thread can do it.
    pub(crate) fn has_status_at_hand(&self) -> bool {
        self.segments.tags_in_memory() < MANY_TAGS
    }

    /// Whoever may connect may ask for the status, so leafd adds many tags up again only when ten
    /// times as long has passed as that took.
    fn recent_totals(&self, now: Instant) -> Option<SegmentTotals> {
        let last = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref().filter(|last| now < last.began + last.took * 10)?;
        Some(last.segments.clone())
    }

    fn keep_totals(&self, began: Instant, segments: SegmentTotals) -> SegmentTotals {
        let took = self.environment.since(began);
        let kept =
            (segments.tags >= FEW_TAGS).then(|| Totals { began, took, segments: segments.clone() });
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        segments
    }
}
