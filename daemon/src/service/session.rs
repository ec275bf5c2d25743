//! One caller's access to the service. A session answers what memory can answer at once, without a
//! task, an await or an allocation. For everything else it hands the transport a future.

mod loans;
mod other_tags;
mod public;
mod segments;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use tokio::time::Instant;

pub(crate) use self::other_tags::LOOK_AHEAD;

use self::other_tags::OtherTags;
use self::segments::AllowedTag;
use super::administration::administrate;
use super::admission::{Reservation, Visitor, audit_turned_away};
use super::answers::{bad_count, ids};
use super::in_flight::{PendingReply, TooManyInFlight, in_background};
use super::policy::RequestLimits;
use super::queues::AdministrationQueues;
use super::shared::Service;
use super::viewer::Viewer;
use crate::access::ledger::User;
use crate::access::principal::Principal;
use crate::ids::Runs;
use crate::snowflake::issuer::SnowflakeOutcome;
use crate::tally::{BatchTally, CallKind};

/// What a status costs its user in addition to the bytes of its answer, in bytes of answers. On a
/// thread other than the Unix socket's, the addition may be lost, which harms nobody.
const STATUS_COST: usize = 512;

/// Where the answer to one call goes. A transport implements it over its connection's buffers, so
/// that the answer is encoded where it is made.
pub(crate) trait Responder {
    /// How many requests of this connection are in flight.
    fn in_flight(&self) -> usize;

    /// Sends the answer.
    fn reply(&mut self, reply: Reply);

    /// Sends the answer once it is ready. Dropping `reply` cancels the request.
    fn reply_later(&mut self, reply: PendingReply);
}

/// The limits that a transport announces when a session begins. A reload does not change them for
/// this session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnouncedLimits {
    /// IDs in one request.
    pub(crate) max_count: u32,
    /// Requests in flight on one connection.
    pub(crate) max_in_flight: u32,
}

/// A caller that was admitted.
pub(crate) struct Session {
    service: Arc<Service>,
    visitor: Visitor,
    announced: AnnouncedLimits,
    /// Most callers ask for the same tag again and again.
    last_tag: Option<AllowedTag>,
    /// Others ask for many tags in turn.
    other_tags: OtherTags,
    /// Made at the first administrative call: few callers have any.
    queues: Option<Arc<AdministrationQueues>>,
    /// Its number among the connections that borrow worker IDs.
    borrows_as: Option<u64>,
    /// Requests that memory answered since the last [`Self::fold_counts`].
    tally: BatchTally,
}

impl Session {
    /// Admits a caller, if the rules and its quota allow it. The session counts as one connection of
    /// its user.
    ///
    /// # Errors
    /// With the answer to the caller.
    pub(crate) fn begin(service: &Arc<Service>, principal: Principal) -> Result<Self, WireError> {
        let requests = &service.counts.requests;
        let visitor = Visitor::admit(service, principal)
            .inspect_err(|refused| requests.refused(CallKind::Connect, refused.code()))?;
        requests.answered(CallKind::Connect);
        let limits = &visitor.policy().limits;
        let max_in_flight = u32::try_from(limits.max_in_flight).unwrap_or(u32::MAX);
        let announced = AnnouncedLimits { max_count: limits.max_count, max_in_flight };
        let service = Arc::clone(service);
        let tally = BatchTally::default();
        Ok(Self {
            service,
            visitor,
            announced,
            last_tag: None,
            other_tags: OtherTags::default(),
            queues: None,
            borrows_as: None,
            tally,
        })
    }

    /// Writes to the audit what a caller asked for that [`Self::begin`] refused, where a transport knows
    /// it: by HTTP, it comes with the first bytes.
    pub(crate) fn turned_away(
        service: &Service,
        principal: &Principal,
        call: &Call<'_>,
        refused: &WireError,
    ) {
        audit_turned_away(service, principal, call, refused);
    }

    pub(crate) const fn announced(&self) -> AnnouncedLimits {
        self.announced
    }

    #[inline]
    pub(crate) const fn user(&self) -> &Arc<User> {
        self.visitor.user()
    }

    /// Adopts the policy in force. Returns whether it has changed: then the transport reads its own
    /// limits again as well.
    #[inline]
    pub(crate) fn keep_up(&mut self) -> bool {
        let changed = self.visitor.keep_up(&self.service);
        if changed {
            self.last_tag = None;
        }
        changed
    }

    /// Adds the requests that memory has answered to the metrics. A transport calls this after each
    /// batch, since a request adds only to its connection's own numbers.
    #[inline]
    pub(crate) fn fold_counts(&mut self) {
        self.service.counts.requests.fold(&mut self.tally);
    }

    /// Counts the answer to a hello, or to bytes that are no call.
    #[cold]
    pub(crate) fn count_greeting(&self, reply: &Reply) {
        let call = match reply {
            Reply::Hello { .. } => CallKind::Hello,
            _ => CallKind::Unknown,
        };
        self.service.counts.note(call, reply);
    }

    /// Whether the caller may stay connected. After a reload it may not.
    ///
    /// # Errors
    /// With the last answer, after which the transport closes the connection.
    #[inline]
    pub(crate) fn may_stay(&self) -> Result<(), WireError> {
        self.visitor.grant().connect().inspect_err(|refused| {
            self.note(refused);
            self.service.counts.refused(CallKind::Connect, refused.code());
        })
    }

    /// Lets the caller watch the daemon.
    ///
    /// # Errors
    /// When no rule allows it.
    pub(crate) fn watch(&self) -> Result<Viewer, WireError> {
        self.visitor.grant().page().inspect_err(|refused| self.note(refused))?;
        Ok(Viewer::new(Arc::clone(&self.service), self.visitor.known().clone()))
    }

    /// Answers any call except `Hello`, which is the transport's.
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
                self.service.counts.requests.answered(CallKind::Time);
                responder.reply(Reply::Time { unix_ms: self.service.environment.unix_ms() });
                Ok(())
            }
            Call::Status if self.service.can_answer_status_at_once() => {
                self.user().share.spend(STATUS_COST);
                self.service.counts.requests.answered(CallKind::Status);
                responder.reply(Reply::Status(Box::new(self.service.status())));
                Ok(())
            }
            Call::WorkerBorrow { .. } | Call::WorkerReturn { .. } => self.lend(call, responder),
            Call::PublicEncode { .. } | Call::PublicDecode { .. } => {
                self.public(call, now, responder)
            }
            _ => self.administrate(call, responder),
        };
        if let Err(refused) = outcome {
            self.refuse(CallKind::of(call), responder, refused);
        }
    }

    #[inline(always)]
    fn snowflake(
        &mut self,
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
        let outcome = match self.may_wait(responder) {
            Ok(()) => issuer.request(count, now, self.deadline(now, timeout_ms)),
            Err(too_many) => {
                issuer.request_at_once(count, now, &|| too_many.error(self.visitor.principal()))
            }
        };
        match outcome {
            SnowflakeOutcome::Now(runs) => {
                if metered {
                    self.visitor.charge(&self.service, count, None, now);
                }
                self.tally.snowflake(count);
                responder.reply(ids(runs));
            }
            SnowflakeOutcome::Refused(refused) => return Err(refused),
            SnowflakeOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, None);
                // This future has a deadline, and the thread that serves has no timers.
                let outcome = in_background(&self.service.background, waiting.outcome());
                let reply = self.keep_waiting(CallKind::Snowflake, now, reserved, outcome);
                responder.reply_later(reply);
            }
        }
        Ok(())
    }

    fn administrate(
        &mut self,
        call: &Call<'_>,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        self.check_administration(call, responder).inspect_err(|refused| {
            self.note(refused);
            self.visitor.audit_refusal(&self.service, call, refused);
        })?;
        let queues = Arc::clone(self.queues.get_or_insert_default());
        let in_flight = self.service.in_flight.add(self.user());
        let (service, actor) = (Arc::clone(&self.service), self.visitor.principal().actor());
        responder.reply_later(administrate(service, in_flight, queues, actor, call));
        Ok(())
    }

    fn check_administration(
        &self,
        call: &Call<'_>,
        responder: &impl Responder,
    ) -> Result<(), WireError> {
        // Everybody who may connect may see the status.
        if !matches!(call, Call::Status) {
            self.visitor.grant().administer()?;
        }
        self.check_in_flight(responder)
    }

    /// Logs a refusal by a rule or a quota; throttled per user.
    #[cold]
    fn note(&self, refused: &WireError) {
        if matches!(refused.code(), ErrorCode::Forbidden | ErrorCode::QuotaExceeded) {
            self.visitor.log(&self.service, refused);
        }
    }

    #[cold]
    fn refuse(&self, call: CallKind, responder: &mut impl Responder, refused: WireError) {
        self.service.counts.refused(call, refused.code());
        responder.reply(Reply::Error(refused));
    }

    #[inline]
    fn check_count(&self, count: u32) -> Result<(), WireError> {
        let limit = self.announced.max_count;
        if count > 0 && count <= limit { Ok(()) } else { Err(bad_count(count, limit)) }
    }

    /// Whether one more request may wait.
    #[inline]
    fn may_wait(&self, responder: &impl Responder) -> Result<(), TooManyInFlight> {
        let max_in_flight = self.announced.max_in_flight as usize;
        self.service.in_flight.check(self.user(), responder.in_flight(), max_in_flight)
    }

    fn check_in_flight(&self, responder: &impl Responder) -> Result<(), WireError> {
        self.may_wait(responder).map_err(|too_many| too_many.error(self.visitor.principal()))
    }

    /// Turns the outcome of a request into its answer, and holds its quota and its place among the
    /// requests in flight until then. Counts the answer, and the wait since `began`.
    fn keep_waiting(
        &self,
        call: CallKind,
        began: Instant,
        reserved: Reservation,
        outcome: impl Future<Output = Result<Runs, WireError>> + Send + 'static,
    ) -> PendingReply {
        let in_flight = self.service.in_flight.add(self.user());
        let service = Arc::clone(&self.service);
        Box::pin(async move {
            let _in_flight = in_flight;
            let outcome = outcome.await;
            let counts = &service.counts;
            counts.waits_of(call).record(service.environment.since(began));
            match outcome {
                Ok(runs) => {
                    counts.requests.waited(call, runs.total());
                    ids(runs)
                }
                Err(refused) => {
                    counts.refused(call, refused.code());
                    reserved.cancel();
                    Reply::Error(refused)
                }
            }
        })
    }

    #[inline]
    fn limits(&self) -> &RequestLimits {
        &self.visitor.policy().limits
    }

    fn deadline(&self, now: Instant, timeout_ms: u32) -> Instant {
        let limits = self.limits();
        let wait = match timeout_ms {
            0 => limits.wait,
            named => Duration::from_millis(u64::from(named)).min(limits.max_wait),
        };
        now + wait
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.fold_counts();
        self.leave_loans();
    }
}
