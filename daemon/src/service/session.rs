//! One caller's side of the service. What memory can answer is answered on the spot, without a task,
//! an await or an allocation; for the rest there is a future.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use tokio::time::Instant;

use super::administration::administrate;
use super::admission::{Allowance, Reservation, Visitor};
use super::room::{Full, Later, in_background};
use super::service::Service;
use super::terms::Limits;
use super::turns::AdministrationTurns;
use crate::access::ledger::User;
use crate::access::principal::Principal;
use crate::ids::{BadTag, BizTag, Runs};
use crate::segment::request::SegmentOutcome;
use crate::segment::table::Asker;
use crate::segment::tag::Tag;
use crate::snowflake::issuer::SnowflakeOutcome;

/// What a status costs beside the bytes of its answer, in bytes of answers.
const STATUS_COST: usize = 512;

/// What comes of a call.
pub(crate) enum Outcome {
    /// The answer.
    Now(Reply),
    /// The answer, once it is there.
    Later(Later),
}

/// The limits that a caller was told when it came. They hold as long as it stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// IDs in one request.
    pub(crate) max_count: u32,
    /// Requests of one connection that may wait.
    pub(crate) max_in_flight: u32,
}

/// A caller that has been let in.
pub(crate) struct Session {
    service: Arc<Service>,
    visitor: Visitor,
    told: Told,
    /// Most callers ask for one tag again and again.
    last_tag: Option<Chosen>,
    /// Few callers administrate.
    turns: Option<Arc<AdministrationTurns>>,
}

/// A tag that the caller may have IDs of.
struct Chosen {
    name: BizTag,
    /// None as long as memory has none of this name.
    tag: Option<Arc<Tag>>,
    allowance: Option<Allowance>,
}

impl Session {
    /// Lets a caller in, if the rules and its quota allow it.
    ///
    /// # Errors
    /// With the answer for the caller.
    pub(crate) fn begin(service: &Arc<Service>, principal: Principal) -> Result<Self, WireError> {
        let visitor = Visitor::admit(service, principal)?;
        let limits = &visitor.known().terms.limits;
        let max_in_flight = u32::try_from(limits.max_in_flight).unwrap_or(u32::MAX);
        let told = Told { max_count: limits.max_count, max_in_flight };
        let service = Arc::clone(service);
        Ok(Self { service, visitor, told, last_tag: None, turns: None })
    }

    /// What the caller is told when it comes.
    pub(crate) const fn told(&self) -> Told {
        self.told
    }

    /// Whose session it is.
    #[inline]
    pub(crate) const fn user(&self) -> &Arc<User> {
        self.visitor.user()
    }

    /// The bounds in force.
    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.visitor.known().terms.limits
    }

    /// Looks whether other terms are in force by now.
    #[inline]
    pub(crate) fn keep_up(&mut self) {
        if self.visitor.keep_up(&self.service) {
            self.last_tag = None;
        }
    }

    /// Whether the caller may still be connected: the rules may have changed.
    ///
    /// # Errors
    /// With the answer to give before the connection is closed.
    #[inline]
    pub(crate) fn may_stay(&self) -> Result<(), WireError> {
        self.visitor.grant().connect().inspect_err(|refused| self.note(refused))
    }

    /// Answers a call, which is no hello. `in_flight` counts the requests of the connection that wait;
    /// it is asked only where another one would have to wait.
    #[inline(always)]
    pub(crate) fn call(
        &mut self,
        call: &Call<'_>,
        now: Instant,
        in_flight: &impl Fn() -> usize,
    ) -> Outcome {
        let outcome = match *call {
            Call::Segment { tag, count, timeout_ms } => {
                self.segment(tag, count, timeout_ms, now, in_flight)
            }
            Call::Snowflake { count, timeout_ms } => {
                self.snowflake(count, timeout_ms, now, in_flight)
            }
            Call::Time => {
                Ok(Outcome::Now(Reply::Time { unix_ms: self.service.environment.unix_ms() }))
            }
            Call::Status if self.service.has_status_at_hand() => {
                self.user().share.spend(STATUS_COST);
                Ok(Outcome::Now(Reply::Status(Box::new(self.service.status()))))
            }
            _ => self.administrate(call, in_flight),
        };
        outcome.unwrap_or_else(|refused| Outcome::Now(Reply::Error(refused)))
    }

    #[inline(always)]
    fn segment(
        &mut self,
        name: &str,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        in_flight: &impl Fn() -> usize,
    ) -> Result<Outcome, WireError> {
        self.check_count(count)?;
        let known = self.last_tag.as_ref().is_some_and(|chosen| chosen.name.as_str() == name);
        if !known {
            let chosen = self.choose(name).inspect_err(|refused| self.note(refused))?;
            self.last_tag = Some(chosen);
        }
        // It was set right above if it was not.
        let Some(Chosen { tag, allowance, .. }) = &self.last_tag else {
            return Err(WireError::new(ErrorCode::ShuttingDown, "the request was given up"));
        };
        let allowance = allowance.as_ref();
        let metered = self.visitor.is_metered(allowance);
        if metered {
            let quota = self.visitor.check_quota(&self.service, count, allowance, now);
            quota.inspect_err(|refused| self.note(refused))?;
        }
        let taken = tag.as_ref().and_then(|tag| self.service.segments.take(tag, count));
        if let Some(first) = taken {
            if metered {
                self.visitor.charge(&self.service, count, allowance, now);
            }
            return Ok(Outcome::Now(ids(Runs::one(first, count))));
        }
        self.segment_by_service(count, timeout_ms, now, in_flight)
    }

    /// Asks for IDs of the chosen tag, of which memory has too few at hand.
    #[inline(never)]
    fn segment_by_service(
        &mut self,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        in_flight: &impl Fn() -> usize,
    ) -> Result<Outcome, WireError> {
        // Kept only as long as it serves: one that the store does not know may be forgotten by
        // memory, and must not live on here beside its successor.
        let Some(Chosen { name, allowance, .. }) = self.last_tag.take() else {
            return Err(WireError::new(ErrorCode::ShuttingDown, "the request was given up"));
        };
        let allowance = allowance.as_ref();
        // Before the name takes a place: a refused request takes none.
        self.check_room(in_flight)?;
        let asker = Asker(self.visitor.grant().uid());
        let deadline = self.deadline(now, timeout_ms);
        match self.service.segments.request(&name, asker, count, deadline) {
            SegmentOutcome::Now(runs) => {
                self.visitor.charge(&self.service, count, allowance, now);
                Ok(Outcome::Now(ids(runs)))
            }
            SegmentOutcome::Refused(refused) => Err(refused),
            SegmentOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, allowance);
                let work = async { waiting.outcome().await.map_or_else(Reply::Error, ids) };
                Ok(self.aside(reserved, work))
            }
        }
    }

    #[inline(always)]
    fn snowflake(
        &self,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        in_flight: &impl Fn() -> usize,
    ) -> Result<Outcome, WireError> {
        self.check_count(count)?;
        let metered = self.visitor.is_metered(None);
        let may = self.visitor.grant().snowflake().and_then(|()| match metered {
            true => self.visitor.check_quota(&self.service, count, None, now),
            false => Ok(()),
        });
        may.inspect_err(|refused| self.note(refused))?;
        let issuer = &self.service.issuer;
        let outcome = match self.room(in_flight) {
            Ok(()) => issuer.request(count, now, self.deadline(now, timeout_ms)),
            Err(full) => issuer.request_at_once(count, now, &|| full.error(self.uid())),
        };
        match outcome {
            SnowflakeOutcome::Now(runs) => {
                if metered {
                    self.visitor.charge(&self.service, count, None, now);
                }
                Ok(Outcome::Now(ids(runs)))
            }
            SnowflakeOutcome::Refused(refused) => Err(refused),
            SnowflakeOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, None);
                let work = async { waiting.outcome().await.map_or_else(Reply::Error, ids) };
                // It waits for its deadline itself, and the serving thread has no timers.
                let work = in_background(&self.service.background, work);
                Ok(self.aside(reserved, work))
            }
        }
    }

    fn administrate(
        &mut self,
        call: &Call<'_>,
        in_flight: &impl Fn() -> usize,
    ) -> Result<Outcome, WireError> {
        // Whoever may connect may know how the daemon is.
        if !matches!(call, Call::Status) {
            self.visitor.grant().administer().inspect_err(|refused| self.note(refused))?;
        }
        self.check_room(in_flight)?;
        let turns = Arc::clone(self.turns.get_or_insert_default());
        let taken = self.service.room.take(self.user());
        Ok(Outcome::Later(administrate(Arc::clone(&self.service), taken, turns, call)))
    }

    /// The tag of this name, if the caller may have IDs of it.
    fn choose(&self, name: &str) -> Result<Chosen, WireError> {
        if let Err(refused) = self.visitor.grant().tag(name) {
            // It is named, so it has to be a name.
            return Err(BizTag::new(name).map_or_else(bad_tag, |_| refused));
        }
        let tag = self.service.segments.find(name);
        let known = tag.as_ref().map(|tag| tag.name().clone());
        let known = known.map_or_else(|| BizTag::new(name).map_err(bad_tag), Ok)?;
        let allowance = self.visitor.allowance(&self.service, name);
        Ok(Chosen { name: known, tag, allowance })
    }

    /// Logs a refusal that is about the caller, at most every so often.
    #[cold]
    fn note(&self, refused: &WireError) {
        if matches!(refused.code(), ErrorCode::Forbidden | ErrorCode::QuotaExceeded) {
            self.visitor.log(&self.service, refused);
        }
    }

    #[inline]
    fn check_count(&self, count: u32) -> Result<(), WireError> {
        let limit = self.told.max_count;
        if count > 0 && count <= limit { Ok(()) } else { Err(bad_count(count, limit)) }
    }

    /// Whether one more request may wait.
    #[inline]
    fn room(&self, in_flight: &impl Fn() -> usize) -> Result<(), Full> {
        self.service.room.check(self.user(), in_flight(), self.told.max_in_flight as usize)
    }

    fn check_room(&self, in_flight: &impl Fn() -> usize) -> Result<(), WireError> {
        self.room(in_flight).map_err(|full| full.error(self.uid()))
    }

    const fn uid(&self) -> u32 {
        self.visitor.grant().uid()
    }

    /// Keeps a request that waits, with what it holds meanwhile.
    fn aside(
        &self,
        reserved: Reservation,
        work: impl Future<Output = Reply> + Send + 'static,
    ) -> Outcome {
        let taken = self.service.room.take(self.user());
        Outcome::Later(Box::pin(async move {
            let _taken = taken;
            let reply = work.await;
            if matches!(reply, Reply::Error(_)) {
                reserved.cancel();
            }
            reply
        }))
    }

    fn deadline(&self, now: Instant, timeout_ms: u32) -> Instant {
        let limits = self.limits();
        let wait = match timeout_ms {
            0 => limits.wait,
            asked => Duration::from_millis(u64::from(asked)).min(limits.max_wait),
        };
        now + wait
    }
}

#[inline]
fn ids(runs: Runs) -> Reply {
    // A request for at least one ID is answered with at least one.
    runs.into_reply().unwrap_or_else(|| {
        Reply::Error(WireError::new(ErrorCode::DeadlineExceeded, "no ID was made"))
    })
}

#[cold]
fn bad_count(count: u32, limit: u32) -> WireError {
    let text = format!("count {count} is not between 1 and {limit} (socket.max-count)");
    WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(limit))
}

fn bad_tag(bad: BadTag) -> WireError {
    WireError::new(ErrorCode::BadTag, bad.to_string())
}
