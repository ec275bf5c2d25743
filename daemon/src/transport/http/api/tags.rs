//! Lists, shows, creates, changes and deletes tags.

use hyper::header::{HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use leaf_client::wire::{Call, MAX_TAGS_PER_PAGE, Reply, TagStatus};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::super::answer::{HttpAnswer, json, unexpected, when_replied};
use super::super::body::HttpBody;
use super::super::problem::HttpProblem;
use super::super::request::HttpRequest;
use super::members::{IdText, SpanDocument};
use crate::tally::CallKind;

#[derive(Debug, Serialize)]
struct TagsDocument<'a> {
    tags: Vec<TagDocument<'a>>,
    /// Where the next page begins; none after the last.
    next: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct TagDocument<'a> {
    tag: &'a str,
    description: &'a str,
    row_step: u64,
    step: u64,
    max_id: IdText,
    current: Option<SpanDocument>,
    next: Option<SpanDocument>,
    position: IdText,
    remaining: u64,
    issued: u64,
    leases: u64,
    last_lease_ms_ago: Option<u64>,
    last_lease_size: u64,
    waiting: u64,
    lease_error: &'a str,
    seconds_left: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTag {
    tag: String,
    /// 0 stands for the daemon's default.
    #[serde(default)]
    step: u32,
    first: Option<IdText>,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedTag {
    step: u32,
}

/// A page of the tags of the store or, with `used=true`, of those that this daemon has used.
pub(super) fn list(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let query = match request.query(&["after", "limit", "used"]) {
        Ok(query) => query,
        Err(problem) => return problem.into(),
    };
    let limit = match query.number::<u32>("limit") {
        Ok(limit) => limit.unwrap_or(MAX_TAGS_PER_PAGE),
        Err(problem) => return problem.into(),
    };
    let after = query.text("after").unwrap_or_default();
    let call = match query.text("used") {
        None | Some("false") => Call::TagList { after, limit },
        Some("true") => Call::TagsUsed { after, limit },
        Some(other) => {
            let text = format!("used {other:?} is neither true nor false");
            return HttpProblem::new(StatusCode::BAD_REQUEST, text).into();
        }
    };
    when_replied(request.ask(&call), move |reply| match reply {
        Reply::Tags(tags) => {
            let next = tags.last().filter(|_| tags.len() >= limit as usize);
            let next = next.map(|last| last.tag.as_str());
            let page = TagsDocument { tags: tags.iter().map(Into::into).collect(), next };
            json(StatusCode::OK, &page)
        }
        other => unexpected(other).into_response(),
    })
}

pub(super) fn show(request: &mut HttpRequest<'_>) -> HttpAnswer {
    match request.query(&[]).and_then(|_| request.tag(CallKind::TagShow)) {
        Ok(tag) => when_replied(request.ask(&Call::TagShow { tag: &tag }), one),
        Err(problem) => problem.into(),
    }
}

pub(super) fn create(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let new = match request.query(&[]).and_then(|_| request.document::<NewTag>()) {
        Ok(new) => new,
        Err(problem) => return problem.into(),
    };
    let call = Call::TagCreate {
        tag: &new.tag,
        step: new.step,
        first: new.first.map_or(1, |first| first.0),
        description: &new.description,
    };
    when_replied(request.ask(&call), move |reply| {
        let mut response = answer(reply, StatusCode::CREATED);
        let place = format!("/v1/tags/{}", utf8_percent_encode(&new.tag, NON_ALPHANUMERIC));
        if response.status() == StatusCode::CREATED
            && let Ok(place) = HeaderValue::try_from(place)
        {
            response.headers_mut().insert(LOCATION, place);
        }
        response
    })
}

pub(super) fn set_step(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = request.query(&[]).and_then(|_| {
        let changed = request.document::<ChangedTag>()?;
        Ok((request.tag(CallKind::TagSetStep)?, changed))
    });
    match asked {
        Ok((tag, ChangedTag { step })) => {
            when_replied(request.ask(&Call::TagSetStep { tag: &tag, step }), one)
        }
        Err(problem) => problem.into(),
    }
}

pub(super) fn delete(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = request.query(&[]).and_then(|_| {
        request.no_document()?;
        request.tag(CallKind::TagDelete)
    });
    match asked {
        Ok(tag) => when_replied(request.ask(&Call::TagDelete { tag: &tag }), one),
        Err(problem) => problem.into(),
    }
}

fn one(reply: Reply) -> Response<HttpBody> {
    answer(reply, StatusCode::OK)
}

fn answer(reply: Reply, status: StatusCode) -> Response<HttpBody> {
    match reply {
        Reply::Tags(tags) => match tags.first() {
            Some(tag) => json(status, &TagDocument::from(tag)),
            None => unexpected(Reply::Tags(tags)).into_response(),
        },
        other => unexpected(other).into_response(),
    }
}

impl<'a> From<&'a TagStatus> for TagDocument<'a> {
    fn from(status: &'a TagStatus) -> Self {
        // Destructured in full, so that the compiler asks for every new field.
        let TagStatus {
            tag,
            row_step,
            step,
            max_id,
            description,
            current,
            next,
            position,
            remaining,
            issued,
            leases,
            last_lease_ms_ago,
            last_lease_size,
            waiting,
            lease_error,
            seconds_left,
        } = status;
        Self {
            tag,
            description,
            row_step: *row_step,
            step: *step,
            max_id: IdText(*max_id),
            current: current.map(Into::into),
            next: next.map(Into::into),
            position: IdText(*position),
            remaining: *remaining,
            issued: *issued,
            leases: *leases,
            last_lease_ms_ago: *last_lease_ms_ago,
            last_lease_size: *last_lease_size,
            waiting: *waiting,
            lease_error,
            seconds_left: *seconds_left,
        }
    }
}
