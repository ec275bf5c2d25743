//! One or many IDs of both schemes.

use hyper::{Response, StatusCode};
use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use serde::Serialize;

use super::super::answer::{HttpAnswer, json, unexpected, when_replied};
use super::super::body::HttpBody;
use super::super::limits::MAX_IDS;
use super::super::problem::HttpProblem;
use super::super::query::{HttpQuery, number};
use super::super::request::HttpRequest;
use super::members::IdText;
use crate::duration;
use crate::tally::CallKind;

/// The parameters of both calls.
const KNOWN: [&str; 3] = ["count", "timeout", "as"];

#[derive(Debug, Serialize)]
struct IdsDocument {
    ids: Vec<IdText>,
}

pub(super) fn segment(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = wanted(request, CallKind::Segment)
        .and_then(|asked| Ok((asked, request.tag(CallKind::Segment)?)));
    match asked {
        Ok(((count, timeout_ms), tag)) => {
            when_replied(request.ask(&Call::Segment { tag: &tag, count, timeout_ms }), ids)
        }
        Err(problem) => problem.into(),
    }
}

pub(super) fn snowflake(request: &mut HttpRequest<'_>) -> HttpAnswer {
    match wanted(request, CallKind::Snowflake) {
        Ok((count, timeout_ms)) => {
            when_replied(request.ask(&Call::Snowflake { count, timeout_ms }), ids)
        }
        Err(problem) => problem.into(),
    }
}

/// How many IDs the request asks for, and how long it may wait, in ms.
fn wanted(request: &HttpRequest<'_>, call: CallKind) -> Result<(u32, u32), HttpProblem> {
    request.no_document()?;
    let query = request.query(&KNOWN)?;
    if let Some(form) = query.text("as").filter(|form| *form != "decimal") {
        let text = format!("leafd has no form {form:?} of an ID; there is decimal");
        return Err(HttpProblem::new(StatusCode::BAD_REQUEST, text));
    }
    let count = count(&query).map_err(|error| request.refuse(call, error))?;
    Ok((count, timeout_ms(&query)?))
}

fn count(query: &HttpQuery<'_>) -> Result<u32, WireError> {
    let Some(text) = query.text("count") else { return Ok(1) };
    let count = number("count", text).ok().filter(|count| (1..=MAX_IDS).contains(count));
    count.ok_or_else(|| {
        let text = format!("count {text:?} is not between 1 and {MAX_IDS}");
        WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(MAX_IDS))
    })
}

fn timeout_ms(query: &HttpQuery<'_>) -> Result<u32, HttpProblem> {
    // 0 stands for the daemon's default.
    let Some(text) = query.text("timeout") else { return Ok(0) };
    let timeout = duration::parse(text).map_err(|error| {
        HttpProblem::new(StatusCode::BAD_REQUEST, format!("timeout {text:?}: {error}"))
    })?;
    Ok(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1))
}

fn ids(reply: Reply) -> Response<HttpBody> {
    match reply {
        Reply::Ids { first, more } => {
            let runs = std::iter::once(first).chain(more);
            let ids = runs.flat_map(|run| (run.first..).take(run.count as usize).map(IdText));
            json(StatusCode::OK, &IdsDocument { ids: ids.collect() })
        }
        other => unexpected(other).into_response(),
    }
}
