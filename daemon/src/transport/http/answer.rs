//! The answers of the handlers.

use futures_util::future::BoxFuture;
use hyper::{Response, StatusCode};
use leaf_client::wire::Reply;
use serde::Serialize;

use super::body::{HttpBody, with_body};
use super::caller::CallOutcome;
use super::problem::HttpProblem;

/// The answer of a handler.
pub(super) enum HttpAnswer {
    Now(Response<HttpBody>),
    Later(BoxFuture<'static, Response<HttpBody>>),
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
