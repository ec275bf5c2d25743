//! Answers the requests of one connection. What memory can answer takes no task and no await.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Either, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode, Version};
use leaf_client::wire::ErrorCode;
use tokio::time::{Instant, timeout};

use super::answer::HttpAnswer;
use super::body::{HttpBody, PIECE};
use super::caller::HttpCaller;
use super::facts::RequestFacts;
use super::guard::{GuardedRequest, check, check_content};
use super::limits::{MAX_BODY, MAX_REQUESTS};
use super::problem::HttpProblem;
use super::request::HttpRequest;
use super::roster::{HttpConnection, HttpPhase, PlaceKind};
use super::router::{find, no_route};
use super::server::HttpServer;
use crate::lock::lock;
use crate::tally::CallKind;

/// Answers the requests of one connection, one at a time.
pub(super) struct Exchange(Arc<ConnectionExchange>);

struct ConnectionExchange {
    server: Arc<HttpServer>,
    state: Arc<HttpConnection>,
    caller: Mutex<HttpCaller>,
    place: PlaceKind,
}

/// An answer that is there, or on its way.
pub(super) enum PendingAnswer {
    Ready(Option<Response<HttpBody>>),
    Waiting(BoxFuture<'static, Response<HttpBody>>),
}

impl Future for PendingAnswer {
    type Output = Result<Response<HttpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => {
                response.take().map_or(Poll::Pending, |it| Poll::Ready(Ok(it)))
            }
            Self::Waiting(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

impl Exchange {
    pub(super) fn new(
        server: Arc<HttpServer>,
        state: Arc<HttpConnection>,
        caller: HttpCaller,
        place: PlaceKind,
    ) -> Self {
        let caller = Mutex::new(caller);
        Self(Arc::new(ConnectionExchange { server, state, caller, place }))
    }
}

impl Service<Request<Incoming>> for Exchange {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = PendingAnswer;

    fn call(&self, request: Request<Incoming>) -> PendingAnswer {
        let this = &self.0;
        let (head, body) = request.into_parts();
        let requests = this.state.count_request();
        let is_head = head.method == Method::HEAD;
        if body.is_end_stream() {
            // One look at the clock for the whole request.
            let now = this.server.clock.now();
            this.state.enter(HttpPhase::Work, this.server.clock.ms_at(now));
            return match this.answer(&head, &[], now) {
                HttpAnswer::Now(response) => PendingAnswer::Ready(Some(this.finish(
                    response,
                    requests,
                    (head.version, is_head),
                ))),
                HttpAnswer::Later(response) => {
                    let this = Arc::clone(this);
                    PendingAnswer::Waiting(Box::pin(async move {
                        let response = response.await;
                        this.state.enter(HttpPhase::Work, this.server.clock.ms());
                        this.finish(response, requests, (head.version, is_head))
                    }))
                }
            };
        }
        // A proxy in front that looks at Content-Length instead could take the rest of the bytes for
        // another request than leafd does, so there is no rest.
        let is_last = head.headers.contains_key(TRANSFER_ENCODING);
        let this = Arc::clone(this);
        PendingAnswer::Waiting(Box::pin(async move {
            let response = this.read_and_answer(&head, body).await;
            this.finish(
                response,
                if is_last { MAX_REQUESTS } else { requests },
                (head.version, is_head),
            )
        }))
    }
}

impl ConnectionExchange {
    async fn read_and_answer(&self, head: &Parts, body: Incoming) -> Response<HttpBody> {
        self.state.enter(HttpPhase::Body, self.server.clock.ms());
        // Also where nobody wants the body: a client that still writes it when the answer comes and
        // the connection ends would lose the answer.
        let body = match self.read(body).await {
            Ok(body) => body,
            Err(problem) => return problem.closing().into_response(),
        };
        let now = self.server.clock.now();
        self.state.enter(HttpPhase::Work, self.server.clock.ms_at(now));
        match self.answer(head, &body, now) {
            HttpAnswer::Now(response) => response,
            HttpAnswer::Later(response) => {
                let response = response.await;
                self.state.enter(HttpPhase::Work, self.server.clock.ms());
                response
            }
        }
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, HttpProblem> {
        // Before hyper polls it: the first poll sends `100 Continue` to a client that expects it.
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_long());
        }
        let limit = self.server.limits().request_timeout;
        match timeout(limit, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
            Ok(Err(error)) => Err(HttpProblem::new(
                StatusCode::BAD_REQUEST,
                format!("the body is broken: {error}"),
            )),
            Err(_) => {
                let text = format!("the body took longer than {limit:?}");
                Err(HttpProblem::new(StatusCode::REQUEST_TIMEOUT, text))
            }
        }
    }

    /// Finds the route, lets the guard check the request, and asks the handler.
    fn answer(&self, head: &Parts, body: &[u8], now: Instant) -> HttpAnswer {
        let facts = RequestFacts::of(&head.headers);
        let path = head.uri.path();
        let found = find(path);
        let request = GuardedRequest {
            uri: &head.uri,
            version: head.version,
            facts: &facts,
            any_host: found.is_some_and(|(route, _)| route.any_host),
        };
        let limits = self.server.limits();
        if self.place == PlaceKind::Reserve && found.is_some_and(|(route, _)| !route.in_reserve) {
            self.server.busy.add(1);
            return busy(limits.max_connections).into();
        }
        if let Err(problem) = check(request, &limits.hosts) {
            if problem.is_of_a_stranger() {
                self.server.service.counts.refused(CallKind::Unknown, ErrorCode::Forbidden);
            }
            return problem.into();
        }
        let Some((route, parameter)) = found else { return no_route(path).into() };
        let handler = match route.handler(&head.method) {
            Ok(handler) => handler,
            Err(problem) => return problem.into(),
        };
        if let Err(problem) = check_content(&head.method, &facts) {
            return problem.into();
        }
        let mut caller = lock(&self.caller);
        if !route.any_host
            && let Err(problem) =
                caller.identify(facts.authorization, &self.server.wrong_tokens, now)
        {
            return problem.into();
        }
        handler(&mut HttpRequest {
            server: &self.server,
            limits: &limits,
            uri: &head.uri,
            headers: &head.headers,
            body,
            parameter,
            caller: &mut caller,
            now,
        })
    }

    /// Says whether the connection ends after the answer to this many `requests`.
    fn finish(
        &self,
        mut response: Response<HttpBody>,
        requests: u32,
        (version, is_head): (Version, bool),
    ) -> Response<HttpBody> {
        let streams = matches!(response.body(), Either::Right(_));
        // A connection in the reserve makes room for the next probe.
        if streams || requests >= MAX_REQUESTS || self.place == PlaceKind::Reserve {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            // Otherwise hyper adds `keep-alive` for a client of HTTP/1.0 that has asked for it.
            *response.version_mut() = version;
        }
        if let Either::Left(body) = response.body()
            && body.len() > PIECE
            && !is_head
        {
            self.state.begin_long_answer(body.len());
        }
        let phase = if streams { HttpPhase::Stream } else { HttpPhase::Answer };
        self.state.turn(phase);
        response
    }
}

fn too_long() -> HttpProblem {
    let text = format!("the body is longer than {MAX_BODY} bytes");
    HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

/// The answer to all but probes and scrapes while every usual connection is busy.
fn busy(limit: usize) -> HttpProblem {
    let text = format!("{limit} connections are busy already (http.max-connections)");
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after_ms(1000)
}
