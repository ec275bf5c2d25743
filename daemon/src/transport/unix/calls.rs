//! Decodes the requests of one connection, passes them to its session, and encodes the answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{
    Reply, Request, Response, WireError, encode_response, peek_tag, split_frame,
};
use tokio::time::Instant;

use crate::access::ledger::User;
use crate::service::in_flight::PendingReply;
use crate::service::session::{LOOK_AHEAD, Responder, Session};
use crate::transport::greeting::Greeting;

/// A request in flight; yields its ID and its answer.
pub(super) struct PendingResponse {
    id: u64,
    reply: PendingReply,
}

impl Future for PendingResponse {
    type Output = (u64, Reply);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(u64, Reply)> {
        let id = self.id;
        self.reply.as_mut().poll(cx).map(|reply| (id, reply))
    }
}

/// The client of one connection: how far its greeting has got, and its session.
pub(super) struct Caller {
    greeting: Greeting,
    session: Session,
}

impl Caller {
    pub(super) const fn new(session: Session) -> Self {
        let limits = session.announced();
        Self { greeting: Greeting::new(limits.max_count, limits.max_in_flight), session }
    }

    pub(super) const fn has_said_hello(&self) -> bool {
        self.greeting.has_said_hello()
    }

    #[inline]
    pub(super) const fn user(&self) -> &std::sync::Arc<User> {
        self.session.user()
    }

    /// See [`Session::keep_up`].
    #[inline]
    pub(super) fn keep_up(&mut self) -> bool {
        self.session.keep_up()
    }

    /// See [`Session::fold_counts`].
    #[inline]
    pub(super) fn fold_counts(&mut self) {
        self.session.fold_counts();
    }

    /// Looks at the requests of `input`, which come next.
    #[inline]
    pub(super) fn look_ahead(&mut self, input: &[u8], max_request_bytes: usize) {
        let mut rest = input;
        let bodies = std::iter::from_fn(|| {
            let (body, behind) = split_frame(rest, max_request_bytes).ok()??;
            rest = behind;
            Some(body)
        });
        self.session.look_ahead(bodies.take(LOOK_AHEAD).filter_map(peek_tag));
    }

    /// Answers one request into `output`, or puts it into `in_flight`. Returns whether the
    /// connection stays open.
    #[inline]
    pub(super) fn call(
        &mut self,
        body: &[u8],
        now: Instant,
        output: &mut Vec<u8>,
        in_flight: &mut FuturesUnordered<PendingResponse>,
    ) -> bool {
        let Request { id, call } = match self.greeting.open(body) {
            Ok(request) => request,
            Err(answer) => {
                self.session.count_greeting(&answer.reply);
                put(output, answer.id, answer.reply);
                return answer.keep_open;
            }
        };
        if let Err(refused) = self.session.may_stay() {
            put_error(output, id, refused);
            return false;
        }
        self.session.call(&call, now, &mut UnixResponder { id, output, in_flight });
        true
    }
}

/// Encodes the answer to the request `id` of one connection.
struct UnixResponder<'a> {
    id: u64,
    output: &'a mut Vec<u8>,
    in_flight: &'a mut FuturesUnordered<PendingResponse>,
}

impl Responder for UnixResponder<'_> {
    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    #[inline(always)]
    fn reply(&mut self, reply: Reply) {
        put(self.output, self.id, reply);
    }

    fn reply_later(&mut self, reply: PendingReply) {
        self.in_flight.push(PendingResponse { id: self.id, reply });
    }
}

#[inline]
fn put(output: &mut Vec<u8>, id: u64, reply: Reply) {
    encode_response(&Response { id, reply }, output);
}

#[cold]
fn put_error(output: &mut Vec<u8>, id: u64, refused: WireError) {
    put(output, id, Reply::Error(refused));
}
