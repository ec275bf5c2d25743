//! Who asks. A connection has the principal that its transport identifies, and each request may show
//! a token and be somebody else's. This is the one place where HTTP opens sessions, so whatever the
//! service has to know about a call by HTTP is said here.

use std::sync::Arc;

use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use tokio::time::Instant;

use crate::access::principal::Principal;
use crate::service::Service;
use crate::service::in_flight::PendingReply;
use crate::service::session::{Responder, Session};

/// The reply to a call.
pub(super) enum Outcome {
    Now(Reply),
    Later(PendingReply),
}

/// The caller of one connection. Its session begins with the first request that needs one, since
/// probes need none.
pub(super) struct Caller {
    service: Arc<Service>,
    principal: Principal,
    session: Option<Session>,
}

impl Caller {
    pub(super) const fn new(service: Arc<Service>, principal: Principal) -> Self {
        Self { service, principal, session: None }
    }

    /// Makes `call`. An error of the service is a reply as well.
    pub(super) fn ask(&mut self, call: &Call<'_>, now: Instant) -> Outcome {
        match self.session() {
            Ok(session) => {
                let mut responder = HttpResponder(None);
                session.call(call, now, &mut responder);
                session.fold_counts();
                responder.0.unwrap_or_else(|| {
                    Outcome::Now(Reply::Error(WireError::new(
                        ErrorCode::ShuttingDown,
                        "leafd dropped the request",
                    )))
                })
            }
            Err(refused) => Outcome::Now(Reply::Error(refused)),
        }
    }

    /// Whether the rules let the caller ask for anything.
    ///
    /// # Errors
    /// With the answer.
    pub(super) fn may_connect(&mut self) -> Result<(), WireError> {
        self.session()?.may_stay()
    }

    /// The session, with the policy in force.
    fn session(&mut self) -> Result<&mut Session, WireError> {
        // Nothing was announced to the caller, so new limits apply at once: in a new session.
        if self.session.as_mut().is_some_and(Session::keep_up) {
            self.session = None;
        }
        match &mut self.session {
            Some(session) => Ok(session),
            none => Ok(none.insert(Session::begin(&self.service, self.principal.clone())?)),
        }
    }
}

/// Takes the reply to the one call that a connection has at a time.
struct HttpResponder(Option<Outcome>);

impl Responder for HttpResponder {
    #[inline]
    fn in_flight(&self) -> usize {
        0
    }

    #[inline]
    fn reply(&mut self, reply: Reply) {
        self.0 = Some(Outcome::Now(reply));
    }

    fn reply_later(&mut self, reply: PendingReply) {
        self.0 = Some(Outcome::Later(reply));
    }
}
