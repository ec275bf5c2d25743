//! Asks the members of etcd: one connection, to the next member after a failure, with a token if there is
//! a user. A request is sent to another member only if sending it twice does no harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::TlsConnector;

use super::access::EtcdAccess;
use super::remedies::explain;
use super::transport::{Connection, HttpAnswer, NoAnswer};
use super::wire::{AuthenticateAnswer, AuthenticateRequest, Refusal, beginning, read};
use crate::config::etcd::EtcdEndpoint;
use crate::secret::Secret;

/// Errors that a new token mends.
const TOKEN_TROUBLE: [&str; 3] =
    ["invalid auth token", "user name is empty", "revision of auth store is old"];

/// The answer to an authentication on a cluster that has none.
const NO_AUTHENTICATION: &str = "authentication is not enabled";

/// The answer to whoever writes with a lease that has ended.
const NO_LEASE: &str = "requested lease not found";

/// Codes of gRPC: no answer in time; at present unavailable, without a leader for example.
const PASSING: [i32; 2] = [4, 14];

/// A kind of request.
#[derive(Debug)]
pub(super) struct Route {
    path: &'static str,
    /// Whether it may be sent again, although it may have been executed.
    is_repeatable: bool,
}

impl Route {
    const fn new(path: &'static str, is_repeatable: bool) -> Self {
        Self { path, is_repeatable }
    }
}

pub(super) const RANGE: Route = Route::new("/v3/kv/range", true);
pub(super) const READ: Route = Route::new("/v3/kv/txn", true);
pub(super) const WRITE: Route = Route::new("/v3/kv/txn", false);
/// Of a key whose value says nothing.
pub(super) const TOUCH: Route = Route::new("/v3/kv/put", true);
pub(super) const GRANT: Route = Route::new("/v3/lease/grant", false);
pub(super) const KEEP_ALIVE: Route = Route::new("/v3/lease/keepalive", true);
pub(super) const REVOKE: Route = Route::new("/v3/lease/revoke", true);
const AUTHENTICATE: Route = Route::new("/v3/auth/authenticate", true);

/// Why a call did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing was written: the records are not as expected.
    Conflict,
    /// No answer, or a refusal. A write may have been executed.
    Failed(String),
    /// The session is over: its lease has ended, or etcd's data is other data.
    Over(String),
}

/// Why an attempt to ask a member brought no answer.
enum Attempt {
    /// Another member may answer.
    Hung(NoAnswer),
    /// The same from any member.
    Refused(Trouble),
    /// It wants another token.
    NeedsToken(String),
}

pub(super) struct EtcdClient {
    access: Arc<EtcdAccess>,
    tls: Option<TlsConnector>,
    /// In an order of this client's own, which spreads the fleet over the members.
    endpoints: Vec<EtcdEndpoint>,
    at: usize,
    connection: Option<Connection>,
    token: Option<Secret>,
    /// Whether the member has said that nobody has to authenticate.
    is_open_to_all: bool,
    /// How often an attempt failed, for whoever observes the keys.
    disturbances: Arc<AtomicU64>,
}

impl EtcdClient {
    /// One without a connection.
    pub(super) fn new(
        access: Arc<EtcdAccess>,
        tls: Option<TlsConnector>,
        random: &mut Rng,
        disturbances: Arc<AtomicU64>,
    ) -> Self {
        let mut endpoints = access.endpoints.clone();
        random.shuffle(&mut endpoints);
        let (connection, token, is_open_to_all) = (None, None, false);
        Self { access, tls, endpoints, at: 0, connection, token, is_open_to_all, disturbances }
    }

    /// Asks for something, with the member's clock (ms since 1970). The caller limits the time of all
    /// attempts; a member that says nothing leaves time for another one.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        route: &Route,
        request: &(impl Serialize + Sync),
    ) -> Result<(T, Option<u64>), Trouble> {
        let body = serde_json::to_vec(request).map_err(|it| Trouble::Failed(it.to_string()))?;
        let limit = if route.is_repeatable { self.access.timeout / 2 } else { self.access.timeout };
        let (mut opened, mut has_new_token) = (0, false);
        let mut last = "no member can be reached".to_owned();
        loop {
            if self.connection.is_none() {
                if opened == self.endpoints.len() {
                    return Err(Trouble::Failed(last));
                }
                opened += 1;
            }
            let mut is_sent = false;
            let attempt = self.attempt(route, body.clone(), &mut is_sent);
            let outcome = tokio::time::timeout(limit, attempt).await.unwrap_or_else(|_| {
                let why = format!("no answer within {limit:?} (etcd.timeout)");
                Err(Attempt::Hung(NoAnswer { why, is_sent }))
            });
            match outcome {
                Ok(answer) => {
                    let value = read(&answer.body).map_err(Trouble::Failed)?;
                    return Ok((value, answer.date_ms));
                }
                Err(Attempt::Refused(trouble)) => return Err(trouble),
                Err(Attempt::NeedsToken(why)) if has_new_token => {
                    return Err(Trouble::Failed(explain(&why, true)));
                }
                Err(Attempt::NeedsToken(_)) => {
                    (self.token, self.is_open_to_all, has_new_token) = (None, false, true);
                }
                Err(Attempt::Hung(NoAnswer { why, is_sent })) => {
                    last = self.hang_up(&why);
                    if is_sent && !route.is_repeatable {
                        return Err(Trouble::Failed(last));
                    }
                }
            }
        }
    }

    /// Leaves the present member, and says why. Its token too: a member that lost data waits for the
    /// write that gave it.
    pub(super) fn hang_up(&mut self, why: &str) -> String {
        self.disturbances.fetch_add(1, Ordering::Relaxed);
        let member = self.endpoint().map(EtcdEndpoint::authority).unwrap_or_default();
        (self.connection, self.token, self.is_open_to_all) = (None, None, false);
        self.at = self.at.wrapping_add(1);
        format!("{member}: {why}")
    }

    fn endpoint(&self) -> Option<&EtcdEndpoint> {
        self.endpoints.get(self.at.checked_rem(self.endpoints.len())?)
    }

    async fn attempt(
        &mut self,
        route: &Route,
        body: Vec<u8>,
        is_sent: &mut bool,
    ) -> Result<HttpAnswer, Attempt> {
        if self.connection.is_none()
            && let Some(endpoint) = self.endpoint()
        {
            let opened = Connection::open(endpoint, self.tls.as_ref()).await;
            self.connection = Some(opened.map_err(Attempt::Hung)?);
        }
        if self.token.is_none() && !self.is_open_to_all && self.access.login.is_some() {
            self.authenticate().await?;
        }
        self.send(route, body, is_sent).await
    }

    async fn authenticate(&mut self) -> Result<(), Attempt> {
        let Some(login) = &self.access.login else { return Ok(()) };
        let (name, password) = (login.user.as_str(), login.password.expose());
        let body = serde_json::to_vec(&AuthenticateRequest { name, password }).unwrap_or_default();
        // It changes nothing, whether it was sent or not.
        match self.send(&AUTHENTICATE, body, &mut false).await {
            Ok(answer) => {
                let answer: AuthenticateAnswer = read(&answer.body).map_err(|_| {
                    // Not shown: it may have a token.
                    let why = "its answer to the authentication has no token".to_owned();
                    Attempt::Refused(Trouble::Failed(why))
                })?;
                self.token = Some(Secret::new(answer.token));
                Ok(())
            }
            Err(Attempt::Refused(Trouble::Failed(why))) if why.contains(NO_AUTHENTICATION) => {
                self.is_open_to_all = true;
                Ok(())
            }
            Err(Attempt::Hung(NoAnswer { why, .. })) => {
                Err(Attempt::Hung(NoAnswer { why, is_sent: false }))
            }
            Err(Attempt::NeedsToken(why)) => Err(Attempt::Refused(Trouble::Failed(why))),
            Err(other) => Err(other),
        }
    }

    async fn send(
        &mut self,
        route: &Route,
        body: Vec<u8>,
        is_sent: &mut bool,
    ) -> Result<HttpAnswer, Attempt> {
        let Some(connection) = &mut self.connection else {
            let why = "no connection".to_owned();
            return Err(Attempt::Hung(NoAnswer { why, is_sent: false }));
        };
        let answer = connection.ask(route.path, self.token.as_ref(), body, is_sent).await;
        let answer = answer.map_err(Attempt::Hung)?;
        if answer.status == 200 {
            return Ok(answer);
        }
        Err(refused(&answer, self.access.login.is_some()))
    }
}

fn refused(answer: &HttpAnswer, has_user: bool) -> Attempt {
    let refusal: Refusal = read(&answer.body).unwrap_or_default();
    let text = refusal.text();
    if text.is_empty() {
        let (status, text) = (answer.status, beginning(&answer.body));
        let why = format!("HTTP status {status}, {text:?}; leafd needs etcd 3.4 or later");
        return Attempt::Refused(Trouble::Failed(why));
    }
    if has_user && TOKEN_TROUBLE.iter().any(|trouble| text.contains(trouble)) {
        return Attempt::NeedsToken(text.to_owned());
    }
    if PASSING.contains(&refusal.code) {
        return Attempt::Hung(NoAnswer { why: text.to_owned(), is_sent: true });
    }
    let trouble = if text.contains(NO_LEASE) { Trouble::Over } else { Trouble::Failed };
    Attempt::Refused(trouble(explain(text, has_user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &'static str, has_user: bool) -> &'static str {
        let body = bytes::Bytes::from_static(body.as_bytes());
        match refused(&HttpAnswer { status, date_ms: None, body }, has_user) {
            Attempt::Hung(NoAnswer { is_sent: true, .. }) => "another member",
            Attempt::Hung(_) => "not sent",
            Attempt::Refused(Trouble::Over(_)) => "over",
            Attempt::Refused(Trouble::Failed(_)) => "failed",
            Attempt::Refused(Trouble::Conflict) => "conflict",
            Attempt::NeedsToken(_) => "token",
        }
    }

    #[test]
    fn a_refusal_says_whether_another_member_another_token_or_another_session_may_help() {
        for (status, body, has_user, expected) in [
            (503, r#"{"error":"etcdserver: no leader","code":14}"#, false, "another member"),
            (
                504,
                r#"{"message":"etcdserver: request timed out","code":4}"#,
                true,
                "another member",
            ),
            (401, r#"{"error":"etcdserver: invalid auth token","code":16}"#, true, "token"),
            (
                400,
                r#"{"error":"etcdserver: revision of auth store is old","code":3}"#,
                true,
                "token",
            ),
            (400, r#"{"error":"etcdserver: user name is empty","code":3}"#, false, "failed"),
            (403, r#"{"error":"etcdserver: permission denied","code":7}"#, true, "failed"),
            (404, r#"{"error":"etcdserver: requested lease not found","code":5}"#, false, "over"),
            (404, "404 page not found", false, "failed"),
            (502, "", false, "failed"),
        ] {
            assert_eq!(kind(status, body, has_user), expected, "{body}");
        }
    }
}
