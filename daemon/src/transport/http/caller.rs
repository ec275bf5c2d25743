//! Who asks. A connection has the principal that its transport identifies, and a request that shows a
//! token is somebody else's. This is the one place where HTTP opens sessions, so whatever the service
//! has to know about a call by HTTP, such as for an audit, is said here.

use std::sync::Arc;

use hyper::header::HeaderValue;
use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use tokio::time::Instant;

use super::problem::HttpProblem;
use super::wrong_tokens::WrongTokens;
use crate::access::principal::Principal;
use crate::service::Service;
use crate::service::in_flight::PendingReply;
use crate::service::session::{Responder, Session};
use crate::service::viewer::Viewer;

/// The reply to a call.
pub(super) enum CallOutcome {
    Now(Reply),
    Later(PendingReply),
}

/// The caller of one connection.
pub(super) struct HttpCaller {
    service: Arc<Service>,
    /// Whoever has connected.
    own: Identity,
    /// Whoever showed a token last.
    bearer: Option<Identity>,
    /// The present request shows the token of `bearer`.
    shows_token: bool,
}

/// A principal and its session, which begins with the first request that needs one, since probes need
/// none.
struct Identity {
    principal: Principal,
    session: Option<Session>,
}

impl HttpCaller {
    pub(super) const fn new(service: Arc<Service>, principal: Principal) -> Self {
        let own = Identity { principal, session: None };
        Self { service, own, bearer: None, shows_token: false }
    }

    /// Finds out who sends the present request.
    ///
    /// # Errors
    /// When it shows something that is not one of leafd's tokens.
    pub(super) fn identify(
        &mut self,
        authorization: Option<&HeaderValue>,
        wrong: &WrongTokens,
        now: Instant,
    ) -> Result<(), HttpProblem> {
        self.shows_token = authorization.is_some();
        let Some(shown) = authorization else { return Ok(()) };
        let rule = token_in(shown.as_bytes()).and_then(|token| self.service.rule_of_token(token));
        let Some(rule) = rule else { return Err(wrong.refuse(now)) };
        let principal = Principal::Token(rule, self.own.principal.origin());
        if self.bearer.as_ref().is_none_or(|bearer| bearer.principal != principal) {
            self.bearer = Some(Identity { principal, session: None });
        }
        Ok(())
    }

    /// Makes `call`. An error of the service is a reply as well.
    pub(super) fn ask(&mut self, call: &Call<'_>, now: Instant) -> CallOutcome {
        match self.session() {
            Ok(session) => {
                let mut responder = HttpResponder(None);
                session.call(call, now, &mut responder);
                session.fold_counts();
                responder.0.unwrap_or_else(|| {
                    CallOutcome::Now(Reply::Error(WireError::new(
                        ErrorCode::ShuttingDown,
                        "leafd dropped the request",
                    )))
                })
            }
            Err(refused) => {
                let principal = &self.identity().principal;
                Session::turned_away(&self.service, principal, call, &refused);
                CallOutcome::Now(Reply::Error(refused))
            }
        }
    }

    /// Whoever sends the present request.
    const fn identity(&self) -> &Identity {
        match &self.bearer {
            Some(bearer) if self.shows_token => bearer,
            _ => &self.own,
        }
    }

    /// Whether the rules let the caller ask for anything.
    ///
    /// # Errors
    /// With the answer.
    pub(super) fn may_connect(&mut self) -> Result<(), WireError> {
        self.session()?.may_stay()
    }

    /// Lets whoever sends the present request watch the daemon.
    ///
    /// # Errors
    /// When no rule allows it.
    pub(super) fn watch(&mut self) -> Result<Viewer, WireError> {
        self.session()?.watch()
    }

    /// The session of whoever sends the present request, with the policy in force.
    fn session(&mut self) -> Result<&mut Session, WireError> {
        let identity = match &mut self.bearer {
            Some(bearer) if self.shows_token => bearer,
            _ => &mut self.own,
        };
        // Nothing was announced to the caller, so new limits apply at once: in a new session.
        if identity.session.as_mut().is_some_and(Session::keep_up) {
            identity.session = None;
        }
        match &mut identity.session {
            Some(session) => Ok(session),
            none => Ok(none.insert(Session::begin(&self.service, identity.principal.clone())?)),
        }
    }
}

/// The token in the value of `Authorization`.
fn token_in(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

/// Takes the reply to the one call that a connection has at a time.
struct HttpResponder(Option<CallOutcome>);

impl Responder for HttpResponder {
    #[inline]
    fn in_flight(&self) -> usize {
        0
    }

    #[inline]
    fn reply(&mut self, reply: Reply) {
        self.0 = Some(CallOutcome::Now(reply));
    }

    fn reply_later(&mut self, reply: PendingReply) {
        self.0 = Some(CallOutcome::Later(reply));
    }
}
