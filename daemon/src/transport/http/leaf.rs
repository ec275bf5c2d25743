//! Java Leaf's routes, to the letter where Java Leaf works: a bare decimal number. Failures have an
//! honest status, unless `http.leaf-errors` asks for Java Leaf's.
//!
//! They stay `GET`, since Java Leaf's callers send that. A `HEAD` would take an ID and tell nobody.

use hyper::{Method, Response, StatusCode};
use leaf_client::form::FormCodec;
use leaf_client::wire::{Call, ErrorCode, Reply};
use serde_json::{Value, json};

use super::answer::{HttpAnswer, unexpected, when_replied};
use super::body::{HttpBody, text, with_body};
use super::forms;
use super::problem::HttpProblem;
use super::query::{HttpQuery, number};
use super::request::HttpRequest;
use super::route::{Handler, Route};
use crate::rfc3339::rfc3339;
use crate::tally::CallKind;

/// What Java Leaf says about an ID that it cannot decode: "an error occurred".
const NOT_DECODED: &str = "snowflake Id反解析发生异常!";

pub(super) static ROUTES: &[Route] = &[
    Route {
        allow: "GET",
        ..Route::reading("/api/segment/get/{key}", &[(Method::GET, segment as Handler)])
    },
    Route {
        allow: "GET",
        ..Route::reading("/api/snowflake/get/{key}", &[(Method::GET, snowflake as Handler)])
    },
    Route::reading("/decodeSnowflakeId", &[(Method::GET, decode as Handler)]),
];

fn segment(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let as_leaf = request.limits.leaf_errors;
    let tag = match request.tag(CallKind::Segment) {
        Ok(tag) => tag,
        Err(problem) => return failure(problem, as_leaf).into(),
    };
    let codec = match codec(request, Some(&tag)) {
        Ok(codec) => codec,
        Err(problem) => return failure(problem, as_leaf).into(),
    };
    let tag = codec.as_ref().map_or(tag.clone(), |codec| codec.tag(&tag).into());
    let outcome = request.ask(&Call::Segment { tag: &tag, count: 1, timeout_ms: 0 });
    when_replied(outcome, move |reply| bare_id(reply, codec.as_ref(), as_leaf))
}

/// Java Leaf asks for a key here as well, and does not look at it.
fn snowflake(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let as_leaf = request.limits.leaf_errors;
    let codec = match codec(request, None) {
        Ok(codec) => codec,
        Err(problem) => return failure(problem, as_leaf).into(),
    };
    let outcome = request.ask(&Call::Snowflake { count: 1, timeout_ms: 0 });
    when_replied(outcome, move |reply| bare_id(reply, codec.as_ref(), as_leaf))
}

/// The form that the parameter `as` names, which Java Leaf does not know.
fn codec(request: &HttpRequest<'_>, tag: Option<&str>) -> Result<Option<FormCodec>, HttpProblem> {
    let name = HttpQuery::find(request.uri.query(), "as")?;
    request.codec(name.as_deref(), tag)
}

fn bare_id(reply: Reply, codec: Option<&FormCodec>, as_leaf: bool) -> Response<HttpBody> {
    match reply {
        Reply::Ids { first, .. } => match codec {
            None => text(&first.first.to_string()),
            Some(codec) => match forms::encoded(codec, first.first) {
                Ok(form) => text(&form),
                Err(problem) => failure(problem, as_leaf),
            },
        },
        other => failure(unexpected(other), as_leaf),
    }
}

/// Java Leaf answers 0 for a scheme that is turned off, and 500 for every other failure.
fn failure(problem: HttpProblem, as_leaf: bool) -> Response<HttpBody> {
    match problem.code() {
        Some(ErrorCode::NotConfigured) if as_leaf => text("0"),
        _ if as_leaf => problem.with_status(StatusCode::INTERNAL_SERVER_ERROR).into_response(),
        _ => problem.into_response(),
    }
}

/// As Java Leaf, but with leafd's layout, and in UTC.
fn decode(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let id = match HttpQuery::find(request.uri.query(), "snowflakeId") {
        Ok(None) => {
            let text = "the parameter snowflakeId is missing";
            return HttpProblem::new(StatusCode::BAD_REQUEST, text).into();
        }
        Ok(Some(id)) => Ok(id),
        Err(problem) => Err(problem),
    };
    let decoded = id.and_then(|id| number::<u64>("snowflakeId", &id)).and_then(|id| {
        let parts = request.server.snowflakes.layout.decode(id);
        parts.map_err(|error| HttpProblem::new(StatusCode::BAD_REQUEST, error.to_string()))
    });
    let body: Value = match decoded {
        Ok(parts) => {
            let time = rfc3339(parts.unix_ms).replace('T', " ").replace('Z', "");
            json!({
                "timestamp": format!("{}({time})", parts.unix_ms),
                "workerId": parts.worker.to_string(),
                "sequenceId": parts.sequence.to_string(),
            })
        }
        // Java Leaf answers 200, whatever it is asked to decode.
        Err(_) if request.limits.leaf_errors => json!({ "errorMsg": NOT_DECODED }),
        Err(problem) => return problem.into(),
    };
    with_body(StatusCode::OK, "application/json", body.to_string().into()).into()
}
