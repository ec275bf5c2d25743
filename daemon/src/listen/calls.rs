//! What requests mean: decodes them, answers what memory can answer on the spot, and hands back a
//! future for the rest.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{Call, ErrorCode, Reply, Request, Response, WireError, encode_response};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::administration::{Turns, administrate};
use super::admission::{Allowance, Reservation, Visitor};
use super::hello::Greeting;
use super::terms::Limits;
use super::{MOST_WAITING, Service};
use crate::access::ledger::User;
use crate::ids::{BadTag, BizTag, Runs};
use crate::segment::service::{Asker, Outcome as SegmentOutcome, Tag};
use crate::snowflake::issuer::Outcome as SnowflakeOutcome;

/// What a status costs beside the bytes of its answer, in bytes of answers.
const STATUS_COST: usize = 512;

/// A request that waits, and then its ID and answer.
pub(super) type Later = Pin<Box<dyn Future<Output = (u64, Reply)> + Send>>;

/// The calling side of one connection.
pub(super) struct Caller {
    service: Arc<Service>,
    greeting: Greeting,
    visitor: Visitor,
    /// Most connections ask for one tag again and again.
    last_tag: Option<Chosen>,
    /// Few connections administrate.
    turns: Option<Arc<Turns>>,
}

/// A tag that the caller may have IDs of.
struct Chosen {
    name: BizTag,
    /// None as long as memory has none of this name.
    tag: Option<Arc<Tag>>,
    allowance: Option<Allowance>,
}

impl Caller {
    pub(super) fn new(service: Arc<Service>, visitor: Visitor) -> Self {
        let limits = &visitor.known().terms.limits;
        let max_in_flight = u32::try_from(limits.max_in_flight).unwrap_or(u32::MAX);
        let greeting = Greeting::new(limits.max_count, max_in_flight);
        Self { service, greeting, visitor, last_tag: None, turns: None }
    }

    pub(super) const fn has_said_hello(&self) -> bool {
        self.greeting.has_said_hello()
    }

    #[inline]
    pub(super) const fn user(&self) -> &Arc<User> {
        self.visitor.user()
    }

    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        &self.visitor.known().terms.limits
    }

    /// Looks whether other terms are in force by now.
    #[inline]
    pub(super) fn keep_up(&mut self) {
        if self.visitor.keep_up(&self.service) {
            self.last_tag = None;
        }
    }

    /// Answers one request into `output`, or puts it into `later`. Says whether the connection
    /// goes on.
    #[inline]
    pub(super) fn call(
        &mut self,
        body: &[u8],
        now: Instant,
        output: &mut Vec<u8>,
        later: &mut FuturesUnordered<Later>,
    ) -> bool {
        let Request { id, call } = match self.greeting.open(body) {
            Ok(request) => request,
            Err(answer) => {
                put(output, answer.id, answer.reply);
                return answer.go_on;
            }
        };
        if let Err(refused) = self.visitor.grant().connect() {
            self.refuse(id, refused, output);
            return false;
        }
        match call {
            Call::Segment { tag, count, timeout_ms } => {
                self.segment(id, tag, count, timeout_ms, now, output, later);
            }
            Call::Snowflake { count, timeout_ms } => {
                self.snowflake(id, count, timeout_ms, now, output, later);
            }
            Call::Time => {
                put(output, id, Reply::Time { unix_ms: self.service.clock.now_ms() });
            }
            Call::Status if self.service.has_status_at_hand() => {
                self.user().share.spend(STATUS_COST);
                put(output, id, Reply::Status(Box::new(self.service.status())));
            }
            call => {
                if let Some(refused) = self.may_not_administer(&call) {
                    self.refuse(id, refused, output);
                } else if let Err(full) = self.room_to_wait(later) {
                    put(output, id, Reply::Error(full.error(self)));
                } else {
                    let turns = Arc::clone(self.turns.get_or_insert_default());
                    let service = Arc::clone(&self.service);
                    later.push(administrate(service, self.counted(), turns, id, &call));
                }
            }
        }
        true
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of one request, on the fast path")]
    fn segment(
        &mut self,
        id: u64,
        name: &str,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        output: &mut Vec<u8>,
        later: &mut FuturesUnordered<Later>,
    ) {
        if !self.count_is_right(id, count, output) {
            return;
        }
        let known = self.last_tag.as_ref().is_some_and(|chosen| chosen.name.as_str() == name);
        if !known {
            match self.choose(name) {
                Ok(chosen) => self.last_tag = Some(chosen),
                Err(refused) => return self.refuse(id, refused, output),
            }
        }
        let Some(Chosen { tag, allowance, .. }) = &self.last_tag else { return };
        let allowance = allowance.as_ref();
        let metered = self.visitor.is_metered(allowance);
        if metered
            && let Err(refused) = self.visitor.check_quota(&self.service, count, allowance, now)
        {
            return self.refuse(id, refused, output);
        }
        let taken = tag.as_ref().and_then(|tag| self.service.segments.take(tag, count));
        if let Some(first) = taken {
            if metered {
                self.visitor.charge(&self.service, count, allowance, now);
            }
            return put(output, id, ids(Runs::one(first, count)));
        }
        // Kept only as long as it serves: one that the store does not know may be forgotten by
        // memory, and must not live on here beside its successor.
        let Some(Chosen { name, allowance, .. }) = self.last_tag.take() else { return };
        let allowance = allowance.as_ref();
        // Before the name takes a place: a refused request takes none.
        if let Err(full) = self.room_to_wait(later) {
            return put(output, id, Reply::Error(full.error(self)));
        }
        let asker = Asker(self.visitor.grant().uid());
        let deadline = self.deadline(now, timeout_ms);
        match self.service.segments.request(&name, asker, count, deadline) {
            SegmentOutcome::Now(runs) => {
                self.visitor.charge(&self.service, count, allowance, now);
                put(output, id, ids(runs));
            }
            SegmentOutcome::Refused(refused) => put(output, id, Reply::Error(refused)),
            SegmentOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, allowance);
                let work = async { waiting.outcome().await.map_or_else(Reply::Error, ids) };
                later.push(self.aside(id, reserved, work));
            }
        }
    }

    #[inline]
    fn snowflake(
        &self,
        id: u64,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        output: &mut Vec<u8>,
        later: &mut FuturesUnordered<Later>,
    ) {
        if !self.count_is_right(id, count, output) {
            return;
        }
        let may = self.visitor.grant().snowflake();
        let metered = self.visitor.is_metered(None);
        let may = may.and_then(|()| match metered {
            true => self.visitor.check_quota(&self.service, count, None, now),
            false => Ok(()),
        });
        if let Err(refused) = may {
            return self.refuse(id, refused, output);
        }
        let issuer = &self.service.issuer;
        let outcome = match self.room_to_wait(later) {
            Ok(()) => issuer.request(count, now, self.deadline(now, timeout_ms)),
            Err(full) => issuer.request_at_once(count, now, &|| full.error(self)),
        };
        match outcome {
            SnowflakeOutcome::Now(runs) => {
                if metered {
                    self.visitor.charge(&self.service, count, None, now);
                }
                put(output, id, ids(runs));
            }
            SnowflakeOutcome::Refused(refused) => put(output, id, Reply::Error(refused)),
            SnowflakeOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, None);
                let work = async { waiting.outcome().await.map_or_else(Reply::Error, ids) };
                // It waits for its deadline itself, and the serving thread has no timers.
                let work = in_background(&self.service, work);
                later.push(self.aside(id, reserved, work));
            }
        }
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

    /// Why the caller may not make this call, which is none of those for IDs.
    fn may_not_administer(&self, call: &Call<'_>) -> Option<WireError> {
        match call {
            // How the daemon is may be known to whoever uses it.
            Call::Status => None,
            _ => self.visitor.grant().administer().err(),
        }
    }

    /// Answers with an error that is about who calls or what they call for.
    #[cold]
    fn refuse(&self, id: u64, refused: WireError, output: &mut Vec<u8>) {
        if matches!(refused.code(), ErrorCode::Forbidden | ErrorCode::QuotaExceeded) {
            self.visitor.log(&self.service, &refused);
        }
        put(output, id, Reply::Error(refused));
    }

    #[inline]
    fn count_is_right(&self, id: u64, count: u32, output: &mut Vec<u8>) -> bool {
        let limit = self.greeting.max_count();
        let right = count > 0 && count <= limit;
        if !right {
            let text = format!("count {count} is not between 1 and {limit} (socket.max-count)");
            let refused = WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(limit));
            put(output, id, Reply::Error(refused));
        }
        right
    }

    /// Whether one more request may wait.
    #[inline]
    fn room_to_wait(&self, later: &FuturesUnordered<Later>) -> Result<(), Full> {
        let limit = self.greeting.max_in_flight() as usize;
        if later.len() >= limit {
            return Err(Full::Connection { limit });
        }
        // A user may have half of the places that others do not use, so there is always room for
        // another user.
        let own = self.user().waiting.load(Ordering::Relaxed);
        let others = self.service.waiting.load(Ordering::Relaxed).saturating_sub(own);
        let limit = MOST_WAITING.saturating_sub(others).div_ceil(2);
        if own >= limit {
            return Err(Full::User { own, limit });
        }
        Ok(())
    }

    fn counted(&self) -> Counted {
        Counted::new(&self.service, self.user())
    }

    /// Keeps a request that waits, with what it holds meanwhile.
    fn aside(
        &self,
        id: u64,
        reserved: Reservation,
        work: impl Future<Output = Reply> + Send + 'static,
    ) -> Later {
        let counted = self.counted();
        Box::pin(async move {
            let _counted = counted;
            let reply = work.await;
            if matches!(reply, Reply::Error(_)) {
                reserved.cancel();
            }
            (id, reply)
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

/// Why no further request may wait, with the limit in force.
#[derive(Clone, Copy)]
enum Full {
    Connection { limit: usize },
    User { own: usize, limit: usize },
}

impl Full {
    #[cold]
    fn error(self, caller: &Caller) -> WireError {
        let (limit, text) = match self {
            Self::Connection { limit } => {
                let text = format!(
                    "{limit} requests of this connection wait already (socket.max-in-flight)"
                );
                (limit, text)
            }
            Self::User { own, limit } => {
                let uid = caller.visitor.grant().uid();
                let text = format!(
                    "{own} requests of uid {uid} wait already; a user may have {limit} now, half \
                     of what other users leave of {MOST_WAITING}"
                );
                (limit, text)
            }
        };
        WireError::new(ErrorCode::TooManyInFlight, text)
            .with_detail(limit as u64)
            .with_retry_after_ms(10)
    }
}

/// Counts a request that waits, until it is answered or given up.
pub(super) struct Counted {
    all: Arc<AtomicUsize>,
    user: Arc<User>,
}

impl Counted {
    fn new(service: &Service, user: &Arc<User>) -> Self {
        service.waiting.fetch_add(1, Ordering::Relaxed);
        user.waiting.fetch_add(1, Ordering::Relaxed);
        Self { all: Arc::clone(&service.waiting), user: Arc::clone(user) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        self.user.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins `work` where timers are, and waits for its answer.
pub(super) fn in_background(
    service: &Service,
    work: impl Future<Output = Reply> + Send + 'static,
) -> impl Future<Output = Reply> + Send + 'static {
    // When the connection ends, nobody waits any more.
    let work = AbortOnDropHandle::new(service.background.spawn(work));
    async move {
        // It can only fail by a defect, which its panic has told.
        let reply = work.await;
        reply.unwrap_or_else(|_| error(ErrorCode::ShuttingDown, "the request was given up"))
    }
}

#[inline]
fn put(output: &mut Vec<u8>, id: u64, reply: Reply) {
    encode_response(&Response { id, reply }, output);
}

#[inline]
fn ids(runs: Runs) -> Reply {
    // A request for at least one ID is answered with at least one.
    runs.into_reply().unwrap_or_else(|| error(ErrorCode::DeadlineExceeded, "no ID was made"))
}

fn bad_tag(bad: BadTag) -> WireError {
    WireError::new(ErrorCode::BadTag, bad.to_string())
}

fn error(code: ErrorCode, text: impl Into<String>) -> Reply {
    Reply::Error(WireError::new(code, text))
}
