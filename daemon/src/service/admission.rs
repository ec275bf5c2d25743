//! What a caller may do and how many IDs it may have, by the policy in force. The rules themselves
//! are in [`crate::access`].

use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, WireError};
use tokio::time::Instant;

use super::policy::{KnownPolicy, Policy};
use super::shared::{QuotaClock, Service};
use super::trail::AuditedCall;
use crate::access::bucket::{Bucket, Over, RateLimit, Reserved};
use crate::access::ledger::{RefusalKind, User, Visit};
use crate::access::principal::Principal;
use crate::access::rules::{Grant, TagQuota};

/// A caller that was admitted. Counts as a connection of its user until it is dropped.
#[derive(Debug)]
pub(super) struct Visitor {
    principal: Principal,
    visit: Visit,
    known: KnownPolicy,
    grant: Grant,
}

/// The limit of one tag, where it has one.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    tag: String,
    bucket: Arc<Bucket>,
    rate: RateLimit,
}

/// When a caller that was over its limit of connections should try again, in milliseconds.
const RETRY_AFTER_MS: u32 = 100;

/// Writes to the audit that `call` of a caller was refused that was not even admitted.
#[cold]
pub(super) fn audit_turned_away(
    service: &Service,
    principal: &Principal,
    call: &Call<'_>,
    refused: &WireError,
) {
    let now = service.since_start(service.environment.now());
    let user = service.ledger.user(principal.account(), now);
    audit_refusal(service, &user, principal, call, refused);
}

/// With too many such lines, it counts them.
fn audit_refusal(
    service: &Service,
    user: &User,
    principal: &Principal,
    call: &Call<'_>,
    refused: &WireError,
) {
    let Some(audited) = AuditedCall::of(call) else { return };
    let now = service.since_start(service.environment.now());
    if let Some(untold) = user.tell(RefusalKind::Administration, now) {
        audited.refused(&principal.actor(), refused, untold);
    }
}

impl Visitor {
    /// Admits a caller, if the rules and its quota allow it.
    ///
    /// # Errors
    /// With the answer to the caller. The refusal is in the log, unless the log is throttled.
    pub(super) fn admit(service: &Service, principal: Principal) -> Result<Self, WireError> {
        let now = service.since_start(service.environment.now());
        let known = service.policy.get();
        let grant = known.policy.access.grant(&principal);
        if let Err(refused) = grant.connect() {
            log(&service.ledger.user(principal.account(), now), &refused, now);
            return Err(refused);
        }
        let limit = grant.quota().connections;
        let visit = service.ledger.visit(principal.account(), limit, now).map_err(|user| {
            let limit = limit.unwrap_or_default();
            let text = format!(
                "{principal} has {limit} connections already (max-connections in quota or \
                 access.rules)"
            );
            let refused = WireError::new(ErrorCode::TooManyConnections, text)
                .with_detail(u64::from(limit))
                .with_retry_after_ms(RETRY_AFTER_MS);
            log(&user, &refused, now);
            service.counts.over_connection_quota.add(1);
            refused
        })?;
        Ok(Self { principal, visit, known, grant })
    }

    /// The policy as of the last [`Self::keep_up`].
    #[inline]
    pub(super) fn policy(&self) -> &Policy {
        &self.known.policy
    }

    /// The same, with its edition.
    pub(super) const fn known(&self) -> &KnownPolicy {
        &self.known
    }

    pub(super) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// What the caller may do, by that policy.
    #[inline]
    pub(super) const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Reads the policy and works out the grant again if the policy has changed. Returns whether it
    /// has.
    #[inline]
    pub(super) fn keep_up(&mut self, service: &Service) -> bool {
        let changed = !service.policy.is(&self.known);
        if changed {
            self.known = service.policy.get();
            self.grant = self.known.policy.access.grant(&self.principal);
        }
        changed
    }

    #[inline]
    pub(super) const fn user(&self) -> &Arc<User> {
        &self.visit.user
    }

    /// Logs a refusal, unless the user's last one of this kind was logged a moment ago.
    #[cold]
    pub(super) fn log(&self, service: &Service, refused: &WireError) {
        log(&self.visit.user, refused, service.since_start(service.environment.now()));
    }

    /// Writes to the audit that `call` was refused.
    #[cold]
    pub(super) fn audit_refusal(&self, service: &Service, call: &Call<'_>, refused: &WireError) {
        audit_refusal(service, &self.visit.user, &self.principal, call, refused);
    }

    /// The limit of `tag`, if it has one.
    pub(super) fn allowance(&self, service: &Service, tag: &str) -> Option<Allowance> {
        let rate = TagQuota::of(&self.known.policy.tags, tag)?;
        let bucket = service.ledger.tag(tag, service.since_start(service.environment.now()));
        Some(Allowance { tag: tag.to_owned(), bucket, rate })
    }

    /// Whether a quota limits the caller or the tag.
    #[inline]
    pub(super) const fn is_metered(&self, tag: Option<&Allowance>) -> bool {
        self.grant.quota().rate.is_some() || tag.is_some()
    }

    /// Whether neither the caller nor any tag has a quota.
    #[inline]
    pub(super) fn is_unmetered(&self) -> bool {
        self.grant.quota().rate.is_none() && self.known.policy.tags.is_empty()
    }

    /// Whether the quotas of the caller and of the tag leave room for `count` IDs.
    ///
    /// # Errors
    /// With the answer to the caller.
    #[inline(never)]
    pub(super) fn check_quota(
        &self,
        service: &Service,
        count: u32,
        tag: Option<&Allowance>,
        now: Instant,
    ) -> Result<(), WireError> {
        let now = service.since_start(now);
        if let Some(rate) = self.grant.quota().rate {
            let whose = || self.principal.to_string();
            let which = "ids-per-second in quota or access.rules";
            let outcome = self.visit.user.ids.check(count, rate, now);
            outcome.map_err(|over| {
                service.counts.over_user_quota.add(1);
                over_quota(over, count, rate, whose, which)
            })?;
        }
        if let Some(Allowance { tag, bucket, rate }) = tag {
            let whose = || format!("the tag {tag:?} (asked by {})", self.principal);
            let outcome = bucket.check(count, *rate, now);
            outcome.map_err(|over| {
                service.counts.over_tag_quota.add(1);
                over_quota(over, count, *rate, whose, "quota.tags")
            })?;
        }
        Ok(())
    }

    /// Charges for `count` IDs that were issued.
    #[inline(never)]
    pub(super) fn charge(
        &self,
        service: &Service,
        count: u32,
        tag: Option<&Allowance>,
        now: Instant,
    ) {
        let now = service.since_start(now);
        if let Some(rate) = self.grant.quota().rate {
            self.visit.user.ids.spend(count, rate, now);
        }
        if let Some(Allowance { bucket, rate, .. }) = tag {
            bucket.spend(count, *rate, now);
        }
    }

    /// Reserves `count` IDs for a request that waits.
    pub(super) fn reserve(
        &self,
        service: &Service,
        count: u32,
        tag: Option<&Allowance>,
    ) -> Reservation {
        let of_user = self.grant.quota().rate.map(|rate| {
            let user = Arc::clone(&self.visit.user);
            let reserved = user.ids.reserve(count, rate);
            (user, reserved)
        });
        let of_tag = tag.map(|Allowance { bucket, rate, .. }| {
            (Arc::clone(bucket), bucket.reserve(count, *rate))
        });
        // The clock costs a reference count, and most requests are not metered.
        let clock = (of_user.is_some() || of_tag.is_some()).then(|| service.quota_clock());
        Reservation { of_user, of_tag, clock }
    }
}

/// The quota that a request in flight has reserved. Dropping it charges for the IDs, even if the
/// client is gone: they may have been issued.
#[derive(Debug)]
pub(super) struct Reservation {
    of_user: Option<(Arc<User>, Reserved)>,
    of_tag: Option<(Arc<Bucket>, Reserved)>,
    clock: Option<QuotaClock>,
}

impl Reservation {
    /// Returns the quota: the request was refused, so no ID was issued.
    pub(super) fn cancel(mut self) {
        if let Some((user, reserved)) = self.of_user.take() {
            user.ids.cancel(reserved);
        }
        if let Some((bucket, reserved)) = self.of_tag.take() {
            bucket.cancel(reserved);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(clock) = &self.clock else { return };
        let now = clock.now();
        if let Some((user, reserved)) = self.of_user.take() {
            user.ids.spend_reserved(reserved, now);
        }
        if let Some((bucket, reserved)) = self.of_tag.take() {
            bucket.spend_reserved(reserved, now);
        }
    }
}

#[cold]
fn over_quota(
    over: Over,
    count: u32,
    rate: RateLimit,
    whose: impl Fn() -> String,
    which: &str,
) -> WireError {
    let (whose, limit) = (whose(), rate.per_second());
    let error = match over {
        Over::Never => {
            let text = format!(
                "count {count} exceeds the limit of {whose}, {limit} IDs per second ({which})"
            );
            WireError::new(ErrorCode::BadCount, text)
        }
        Over::Wait(wait) => {
            let text = format!("{whose} has reached its limit of {limit} IDs per second ({which})");
            let ms = u32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
            WireError::new(ErrorCode::QuotaExceeded, text).with_retry_after_ms(ms)
        }
    };
    error.with_detail(limit)
}

fn log(user: &User, refused: &WireError, now: Duration) {
    let kind = match refused.code() {
        ErrorCode::Forbidden => RefusalKind::Forbidden,
        _ => RefusalKind::Over,
    };
    match user.tell(kind, now) {
        Some(0) => tracing::warn!("refused: {refused}"),
        Some(untold) => tracing::warn!(untold, "refused again: {refused}"),
        None => {}
    }
}
