//! What a caller may do, and how much of it the caller has had, judged by the terms in force.

use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;

use super::service::Service;
use super::terms::Known;
use crate::access::bucket::{Bucket, Over, RateLimit, Reserved};
use crate::access::ledger::{RefusalKind, User, Visit};
use crate::access::principal::Principal;
use crate::access::rules::{Grant, TagQuota};

/// A caller that has been let in.
#[derive(Debug)]
pub(super) struct Visitor {
    principal: Principal,
    visit: Visit,
    known: Known,
    grant: Grant,
}

/// What one tag may still give, where that is limited.
#[derive(Debug)]
pub(super) struct Allowance {
    tag: String,
    bucket: Arc<Bucket>,
    rate: RateLimit,
}

/// How long to wait with the next attempt when there is no place.
const PLACE_MS: u32 = 100;

impl Visitor {
    /// Lets a caller in, if the rules and its quota allow it.
    ///
    /// # Errors
    /// With the answer for the caller. The log has been told, at most every so often.
    pub(super) fn admit(service: &Service, principal: Principal) -> Result<Self, WireError> {
        let now = service.since_start(Instant::now());
        let known = service.terms.get();
        let grant = known.terms.access.grant(&principal);
        if let Err(refused) = grant.connect() {
            log(&service.ledger.user(principal.uid, now), &refused, now);
            return Err(refused);
        }
        let most = grant.quota().connections;
        let visit = service.ledger.visit(principal.uid, most, now).map_err(|user| {
            let most = most.unwrap_or_default();
            let text = format!(
                "uid {} has {most} connections already (max-connections in quota or access.rules)",
                principal.uid
            );
            let refused = WireError::new(ErrorCode::TooManyConnections, text)
                .with_detail(u64::from(most))
                .with_retry_after_ms(PLACE_MS);
            log(&user, &refused, now);
            refused
        })?;
        Ok(Self { principal, visit, known, grant })
    }

    /// The terms as last looked at.
    #[inline]
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// What the caller may, by these terms.
    #[inline]
    pub(super) const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Looks whether the terms have changed, and whether the caller is still let in. Says whether
    /// they have.
    #[inline]
    pub(super) fn keep_up(&mut self, service: &Service) -> bool {
        let changed = !service.terms.are(&self.known);
        if changed {
            self.known = service.terms.get();
            self.grant = self.known.terms.access.grant(&self.principal);
        }
        changed
    }

    /// Whose connection it is.
    #[inline]
    pub(super) const fn user(&self) -> &Arc<User> {
        &self.visit.user
    }

    /// Tells the log of a refusal, now and then.
    #[cold]
    pub(super) fn log(&self, service: &Service, refused: &WireError) {
        log(&self.visit.user, refused, service.since_start(Instant::now()));
    }

    /// What limits `tag`.
    pub(super) fn allowance(&self, service: &Service, tag: &str) -> Option<Allowance> {
        let rate = TagQuota::of(&self.known.terms.tags, tag)?;
        let bucket = service.ledger.tag(tag, service.since_start(Instant::now()));
        Some(Allowance { tag: tag.to_owned(), bucket, rate })
    }

    /// Whether anything limits how many IDs the caller may have of `tag`.
    #[inline]
    pub(super) const fn is_metered(&self, tag: Option<&Allowance>) -> bool {
        self.grant.quota().rate.is_some() || tag.is_some()
    }

    /// Whether the quotas of the caller and of the tag leave room for `count` IDs.
    ///
    /// # Errors
    /// With the answer when they do not.
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
            let whose = || format!("uid {}", self.grant.uid());
            let which = "ids-per-second in quota or access.rules";
            let outcome = self.visit.user.ids.check(count, rate, now);
            outcome.map_err(|over| too_much(over, count, rate, whose, which))?;
        }
        if let Some(Allowance { tag, bucket, rate }) = tag {
            let whose = || format!("the tag {tag:?} (asked by uid {})", self.grant.uid());
            let outcome = bucket.check(count, *rate, now);
            outcome.map_err(|over| too_much(over, count, *rate, whose, "quota.tags"))?;
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
        Reservation { of_user, of_tag, started: service.started() }
    }
}

/// What a request in flight has reserved. If nobody waits for the answer any more, it counts as
/// issued: nobody can tell whether it was.
#[derive(Debug)]
pub(super) struct Reservation {
    of_user: Option<(Arc<User>, Reserved)>,
    of_tag: Option<(Arc<Bucket>, Reserved)>,
    started: Instant,
}

impl Reservation {
    /// The request was refused.
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
        if self.of_user.is_none() && self.of_tag.is_none() {
            return;
        }
        let now = self.started.elapsed();
        if let Some((user, reserved)) = self.of_user.take() {
            user.ids.spend_reserved(reserved, now);
        }
        if let Some((bucket, reserved)) = self.of_tag.take() {
            bucket.spend_reserved(reserved, now);
        }
    }
}

#[cold]
fn too_much(
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
                "count {count} is above what {whose} may have in a second, {limit} ({which})"
            );
            WireError::new(ErrorCode::BadCount, text)
        }
        Over::Wait(wait) => {
            let text = format!("{whose} has had {limit} IDs within a second ({which})");
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
        Some(0) => tracing::warn!("refused: {}", refused.message),
        Some(untold) => tracing::warn!(untold, "refused again: {}", refused.message),
        None => {}
    }
}
