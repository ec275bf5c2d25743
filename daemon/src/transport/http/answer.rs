//! The answers of the handlers. Every answer says what caches may do with it: nothing.

use std::convert::Infallible;

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use leaf_client::wire::{Reply, WireError};

use super::caller::Outcome;
use super::problem::Problem;

/// The body of an answer: whole, or a stream that goes on and on.
pub(super) type HttpBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// The answer of a handler.
pub(super) enum Answer {
    Now(Response<HttpBody>),
    Later(BoxFuture<'static, Response<HttpBody>>),
}

const TEXT: &str = "text/plain;charset=UTF-8";

/// An answer with a whole body.
pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<HttpBody> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Plain text, such as the bare number that Java Leaf answers with.
pub(super) fn text(body: &str) -> Response<HttpBody> {
    with_body(StatusCode::OK, TEXT, Bytes::copy_from_slice(body.as_bytes()))
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        Self::Now(problem.into_response())
    }
}

impl From<Response<HttpBody>> for Answer {
    fn from(response: Response<HttpBody>) -> Self {
        Self::Now(response)
    }
}

/// Turns the outcome of a call into an answer, now or once the service has replied.
pub(super) fn when_replied(
    outcome: Outcome,
    encode: impl FnOnce(Reply) -> Response<HttpBody> + Send + 'static,
) -> Answer {
    match outcome {
        Outcome::Now(reply) => Answer::Now(encode(reply)),
        Outcome::Later(reply) => Answer::Later(Box::pin(async move { encode(reply.await) })),
    }
}

/// The problem in a reply that a call cannot have.
pub(super) fn unexpected(reply: Reply) -> Problem {
    match reply {
        Reply::Error(error) => Problem::of(error),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the service replied to another call"),
    }
}

/// As [`Problem::of`], for handlers that end early.
pub(super) fn refused(error: WireError) -> Answer {
    Problem::of(error).into()
}
