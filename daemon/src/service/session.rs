//! One caller's side of the service. What memory can answer is answered on the spot, without a task,
//! an await or an allocation; for the rest there is a future.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply, Run, WireError};
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
use crate::segment::service::{Asker, Outcome as SegmentOutcome, Tag};
use crate::snowflake::issuer::Outcome as SnowflakeOutcome;

/// What a status costs beside the bytes of its answer, in bytes of answers.
const STATUS_COST: usize = 512;

/// Where the answer to one call goes. A transport implements it with what its connection has at
/// hand, so that an answer moves no further than from here into the transport's buffer.
pub(crate) trait Responder {
    /// How many requests of the same connection wait. Asked only if this one would have to wait too.
    fn in_flight(&self) -> usize;

    /// Sends the answer.
    fn reply(&mut self, reply: Reply);

    /// Keeps the request until its answer is there.
    fn reply_later(&mut self, later: Later);
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

    /// Answers a call, which is no hello.
    #[inline(always)]
    pub(crate) fn call(&mut self, call: &Call<'_>, now: Instant, responder: &mut impl Responder) {
        let outcome = match *call {
            Call::Segment { tag, count, timeout_ms } => {
                self.segment(tag, count, timeout_ms, now, responder)
            }
            Call::Snowflake { count, timeout_ms } => {
                self.snowflake(count, timeout_ms, now, responder)
            }
            Call::Time => {
                responder.reply(Reply::Time { unix_ms: self.service.environment.unix_ms() });
                Ok(())
            }
            Call::Status if self.service.has_status_at_hand() => {
                self.user().share.spend(STATUS_COST);
                responder.reply(Reply::Status(Box::new(self.service.status())));
                Ok(())
            }
            _ => self.administrate(call, responder),
        };
        if let Err(refused) = outcome {
            refuse(responder, refused);
        }
    }

    #[inline(always)]
    fn segment(
        &mut self,
        name: &str,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        self.check_count(count)?;
        let chosen = match &self.last_tag {
            Some(chosen) if chosen.name.as_str() == name => chosen,
            _ => &*self.last_tag.insert(self.choose(name)?),
        };
        let allowance = chosen.allowance.as_ref();
        let metered = self.visitor.is_metered(allowance);
        if metered
            && let Err(refused) = self.visitor.check_quota(&self.service, count, allowance, now)
        {
            self.note(&refused);
            return Err(refused);
        }
        let taken = chosen.tag.as_ref().and_then(|tag| self.service.segments.take(tag, count));
        let Some(first) = taken else {
            // Memory may forget a tag that the store does not know, and make another one of the same
            // name: the session must not keep the first.
            let (name, allowance) = (chosen.name.clone(), chosen.allowance.clone());
            self.last_tag = None;
            let deadline = self.deadline(now, timeout_ms);
            return self.segment_by_service(&name, allowance, count, (now, deadline), responder);
        };
        if metered {
            self.visitor.charge(&self.service, count, allowance, now);
        }
        responder.reply(Reply::Ids { first: Run { first, count }, more: Vec::new() });
        Ok(())
    }

    /// Asks for IDs of a tag when memory has too few at hand.
    #[inline(never)]
    fn segment_by_service(
        &self,
        name: &BizTag,
        allowance: Option<Allowance>,
        count: u32,
        (now, deadline): (Instant, Instant),
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        let allowance = allowance.as_ref();
        // Before the name takes a place: a refused request takes none.
        self.check_room(responder)?;
        let asker = Asker(self.visitor.grant().uid());
        match self.service.segments.request(name, asker, count, deadline) {
            SegmentOutcome::Now(runs) => {
                self.visitor.charge(&self.service, count, allowance, now);
                responder.reply(ids(runs));
            }
            SegmentOutcome::Refused(refused) => return Err(refused),
            SegmentOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, allowance);
                responder.reply_later(self.keep_waiting(reserved, waiting.outcome()));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn snowflake(
        &self,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        self.check_count(count)?;
        self.visitor.grant().snowflake().inspect_err(|refused| self.note(refused))?;
        let metered = self.visitor.is_metered(None);
        if metered {
            let quota = self.visitor.check_quota(&self.service, count, None, now);
            quota.inspect_err(|refused| self.note(refused))?;
        }
        let issuer = &self.service.issuer;
        let outcome = match self.room(responder) {
            Ok(()) => issuer.request(count, now, self.deadline(now, timeout_ms)),
            Err(full) => issuer.request_at_once(count, now, &|| full.error(self.uid())),
        };
        match outcome {
            SnowflakeOutcome::Now(runs) => {
                if metered {
                    self.visitor.charge(&self.service, count, None, now);
                }
                responder.reply(ids(runs));
            }
            SnowflakeOutcome::Refused(refused) => return Err(refused),
            SnowflakeOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, None);
                // It waits for its deadline itself, and the serving thread has no timers.
                let outcome = in_background(&self.service.background, waiting.outcome());
                responder.reply_later(self.keep_waiting(reserved, outcome));
            }
        }
        Ok(())
    }

    fn administrate(
        &mut self,
        call: &Call<'_>,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        // Whoever may connect may see the status.
        if !matches!(call, Call::Status) {
            self.visitor.grant().administer().inspect_err(|refused| self.note(refused))?;
        }
        self.check_room(responder)?;
        let turns = Arc::clone(self.turns.get_or_insert_default());
        let taken = self.service.room.take(self.user());
        responder.reply_later(administrate(Arc::clone(&self.service), taken, turns, call));
        Ok(())
    }

    /// The tag of this name, if the caller may have IDs of it.
    fn choose(&self, name: &str) -> Result<Chosen, WireError> {
        if let Err(refused) = self.visitor.grant().tag(name) {
            // The refusal quotes the tag, so a malformed one is refused as such.
            BizTag::new(name).map_err(bad_tag)?;
            self.note(&refused);
            return Err(refused);
        }
        let tag = self.service.segments.find(name);
        let checked = match &tag {
            Some(tag) => tag.name().clone(),
            None => BizTag::new(name).map_err(bad_tag)?,
        };
        let allowance = self.visitor.allowance(&self.service, name);
        Ok(Chosen { name: checked, tag, allowance })
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
    fn room(&self, responder: &impl Responder) -> Result<(), Full> {
        let max_in_flight = self.told.max_in_flight as usize;
        self.service.room.check(self.user(), responder.in_flight(), max_in_flight)
    }

    fn check_room(&self, responder: &impl Responder) -> Result<(), WireError> {
        self.room(responder).map_err(|full| full.error(self.uid()))
    }

    const fn uid(&self) -> u32 {
        self.visitor.grant().uid()
    }

    /// Keeps a request until its outcome is there, with the place and the quota that it holds.
    fn keep_waiting(
        &self,
        reserved: Reservation,
        outcome: impl Future<Output = Result<Runs, WireError>> + Send + 'static,
    ) -> Later {
        let taken = self.service.room.take(self.user());
        Box::pin(async move {
            let _taken = taken;
            match outcome.await {
                Ok(runs) => ids(runs),
                Err(refused) => {
                    reserved.cancel();
                    Reply::Error(refused)
                }
            }
        })
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

#[cold]
fn refuse(responder: &mut impl Responder, refused: WireError) {
    responder.reply(Reply::Error(refused));
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
