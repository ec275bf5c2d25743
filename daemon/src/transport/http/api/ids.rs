//! One or many IDs of both schemes.

use std::borrow::Cow;

use hyper::{Response, StatusCode};
use leaf_client::form::FormCodec;
use leaf_client::wire::{Call, ErrorCode, Reply, WireError};
use serde::Serialize;

use super::super::answer::{HttpAnswer, json, unexpected, when_replied};
use super::super::body::HttpBody;
use super::super::forms;
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
struct IdsDocument<T> {
    ids: Vec<T>,
}

/// What a request asks for.
struct WantedIds<'a> {
    count: u32,
    /// How long the request may wait, in ms; 0 for the daemon's default.
    timeout_ms: u32,
    /// The name of the form, if there is one.
    form: Option<Cow<'a, str>>,
}

pub(super) fn segment(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = wanted(request, CallKind::Segment).and_then(|wanted| {
        let tag = request.tag(CallKind::Segment)?;
        let codec = request.codec(wanted.form.as_deref(), Some(&tag))?;
        Ok((wanted, tag, codec))
    });
    match asked {
        Ok((WantedIds { count, timeout_ms, .. }, tag, codec)) => {
            let tag = codec.as_ref().map_or(tag.clone(), |codec| codec.tag(&tag).into());
            let outcome = request.ask(&Call::Segment { tag: &tag, count, timeout_ms });
            when_replied(outcome, move |reply| ids(reply, codec.as_ref()))
        }
        Err(problem) => problem.into(),
    }
}

pub(super) fn snowflake(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = wanted(request, CallKind::Snowflake).and_then(|wanted| {
        let codec = request.codec(wanted.form.as_deref(), None)?;
        Ok((wanted, codec))
    });
    match asked {
        Ok((WantedIds { count, timeout_ms, .. }, codec)) => {
            let outcome = request.ask(&Call::Snowflake { count, timeout_ms });
            when_replied(outcome, move |reply| ids(reply, codec.as_ref()))
        }
        Err(problem) => problem.into(),
    }
}

fn wanted<'a>(request: &HttpRequest<'a>, call: CallKind) -> Result<WantedIds<'a>, HttpProblem> {
    request.no_document()?;
    let query = request.query(&KNOWN)?;
    let count = count(&query).map_err(|error| request.refuse(call, error))?;
    let timeout_ms = timeout_ms(&query)?;
    Ok(WantedIds { count, timeout_ms, form: query.take("as") })
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

fn ids(reply: Reply, codec: Option<&FormCodec>) -> Response<HttpBody> {
    match reply {
        Reply::Ids { first, more } => {
            let runs = std::iter::once(first).chain(more);
            let ids = runs.flat_map(|run| (run.first..).take(run.count as usize));
            let Some(codec) = codec else {
                return json(StatusCode::OK, &IdsDocument { ids: ids.map(IdText).collect() });
            };
            match ids.map(|id| forms::encoded(codec, id)).collect::<Result<Vec<_>, _>>() {
                Ok(ids) => json(StatusCode::OK, &IdsDocument { ids }),
                Err(problem) => problem.into_response(),
            }
        }
        other => unexpected(other).into_response(),
    }
}
