//! Bytes of requests in, bytes of answers out: decodes what a connection has sent, has the service
//! answer it, and encodes the answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{Reply, Request, Response, WireError, encode_response};
use tokio::time::Instant;

use crate::access::ledger::User;
use crate::service::room::Later;
use crate::service::session::{Responder, Session};
use crate::service::terms::Limits;
use crate::transport::greeting::Greeting;

/// A request that waits, and then its ID and answer.
pub(super) struct Pending {
    id: u64,
    reply: Later,
}

impl Future for Pending {
    type Output = (u64, Reply);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(u64, Reply)> {
        let id = self.id;
        self.reply.as_mut().poll(cx).map(|reply| (id, reply))
    }
}

/// The calling side of one connection.
pub(super) struct Caller {
    greeting: Greeting,
    session: Session,
}

impl Caller {
    pub(super) const fn new(session: Session) -> Self {
        let told = session.told();
        Self { greeting: Greeting::new(told.max_count, told.max_in_flight), session }
    }

    pub(super) const fn has_said_hello(&self) -> bool {
        self.greeting.has_said_hello()
    }

    #[inline]
    pub(super) const fn user(&self) -> &std::sync::Arc<User> {
        self.session.user()
    }

    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        self.session.limits()
    }

    /// Looks whether other terms are in force by now.
    #[inline]
    pub(super) fn keep_up(&mut self) {
        self.session.keep_up();
    }

    /// Answers one request into `output`, or puts it into `pending`. Says whether the connection
    /// goes on.
    #[inline]
    pub(super) fn call(
        &mut self,
        body: &[u8],
        now: Instant,
        output: &mut Vec<u8>,
        pending: &mut FuturesUnordered<Pending>,
    ) -> bool {
        let Request { id, call } = match self.greeting.open(body) {
            Ok(request) => request,
            Err(answer) => {
                put(output, answer.id, answer.reply);
                return answer.go_on;
            }
        };
        if let Err(refused) = self.session.may_stay() {
            put_error(output, id, refused);
            return false;
        }
        self.session.call(&call, now, &mut Answering { id, output, pending });
        true
    }
}

/// Takes the answer to the request `id` of one connection.
struct Answering<'a> {
    id: u64,
    output: &'a mut Vec<u8>,
    pending: &'a mut FuturesUnordered<Pending>,
}

impl Responder for Answering<'_> {
    #[inline]
    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    #[inline(always)]
    fn reply(&mut self, reply: Reply) {
        put(self.output, self.id, reply);
    }

    fn reply_later(&mut self, later: Later) {
        self.pending.push(Pending { id: self.id, reply: later });
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
