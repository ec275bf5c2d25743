//! The answers of the handlers. Every answer says what caches may do with it: nothing.

use std::convert::Infallible;

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use leaf_client::wire::Reply;
use serde::Serialize;

use super::caller::CallOutcome;
use super::problem::HttpProblem;

/// The body of an answer: whole, or a stream that goes on and on.
pub(super) type HttpBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// The answer of a handler.
pub(super) enum HttpAnswer {
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

impl From<HttpProblem> for HttpAnswer {
    fn from(problem: HttpProblem) -> Self {
        Self::Now(problem.into_response())
    }
}

impl From<Response<HttpBody>> for HttpAnswer {
    fn from(response: Response<HttpBody>) -> Self {
        Self::Now(response)
    }
}

/// Turns the outcome of a call into an answer, now or once the service has replied.
pub(super) fn when_replied(
    outcome: CallOutcome,
    encode: impl FnOnce(Reply) -> Response<HttpBody> + Send + 'static,
) -> HttpAnswer {
    match outcome {
        CallOutcome::Now(reply) => HttpAnswer::Now(encode(reply)),
        CallOutcome::Later(reply) => {
            HttpAnswer::Later(Box::pin(async move { encode(reply.await) }))
        }
    }
}

/// The problem in a reply that a call cannot have.
pub(super) fn unexpected(reply: Reply) -> HttpProblem {
    match reply {
        Reply::Error(error) => HttpProblem::of(error),
        _ => HttpProblem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the service replied to another call",
        ),
    }
}

/// A JSON document.
pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Response<HttpBody> {
    match serde_json::to_vec(document) {
        Ok(text) => with_body(status, "application/json", text.into()),
        Err(error) => {
            let text = format!("the answer cannot be written: {error}");
            HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
