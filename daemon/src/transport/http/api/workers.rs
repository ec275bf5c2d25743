//! Lists and releases worker IDs.

use hyper::{Response, StatusCode};
use leaf_client::wire::{Call, MAX_WORKERS_PER_PAGE, Reply, WorkerState, WorkerStatus};
use serde::{Deserialize, Serialize};

use super::super::answer::{HttpAnswer, json, unexpected, when_replied};
use super::super::body::HttpBody;
use super::super::query::number;
use super::super::request::HttpRequest;

#[derive(Debug, Serialize)]
struct WorkersDocument<'a> {
    workers: Vec<WorkerDocument<'a>>,
    /// Where the next page begins; none after the last.
    next: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkerDocument<'a> {
    worker: u64,
    owner: &'a str,
    address: &'a str,
    state: &'static str,
    live: bool,
    own: bool,
    reported_unix_ms: u64,
    age_ms: u64,
    ceiling_unix_ms: u64,
    limit_unix_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleasedOwner {
    owner: String,
}

pub(super) fn list(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = request.query(&["from", "limit"]).and_then(|query| {
        let from = query.number("from")?.unwrap_or_default();
        Ok((from, query.number("limit")?.unwrap_or(MAX_WORKERS_PER_PAGE)))
    });
    let (from, limit) = match asked {
        Ok(asked) => asked,
        Err(problem) => return problem.into(),
    };
    when_replied(request.ask(&Call::WorkerList { from, limit }), move |reply| match reply {
        Reply::Workers(workers) => {
            let last = workers.last().filter(|_| workers.len() >= limit as usize);
            let next = last.and_then(|last| last.worker.checked_add(1));
            let workers = workers.iter().map(Into::into).collect();
            json(StatusCode::OK, &WorkersDocument { workers, next })
        }
        other => unexpected(other).into_response(),
    })
}

pub(super) fn release(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let asked = request.query(&[]).and_then(|_| {
        let worker = number::<u64>("worker", &request.parameter()?)?;
        Ok((worker, request.document::<ReleasedOwner>()?))
    });
    match asked {
        Ok((worker, ReleasedOwner { owner })) => {
            when_replied(request.ask(&Call::WorkerRelease { worker, owner: &owner }), one)
        }
        Err(problem) => problem.into(),
    }
}

fn one(reply: Reply) -> Response<HttpBody> {
    match reply {
        Reply::Workers(workers) => match workers.first() {
            Some(worker) => json(StatusCode::OK, &WorkerDocument::from(worker)),
            None => unexpected(Reply::Workers(workers)).into_response(),
        },
        other => unexpected(other).into_response(),
    }
}

impl<'a> From<&'a WorkerStatus> for WorkerDocument<'a> {
    fn from(status: &'a WorkerStatus) -> Self {
        // Destructured in full, so that the compiler asks for every new field.
        let WorkerStatus {
            worker,
            owner,
            address,
            state,
            live,
            own,
            reported_unix_ms,
            age_ms,
            ceiling_unix_ms,
            limit_unix_ms,
        } = status;
        let state = match state {
            WorkerState::Held => "held",
            WorkerState::Settling => "settling",
            WorkerState::Released => "released",
            WorkerState::JavaLeaf => "java-leaf",
        };
        Self {
            worker: *worker,
            owner,
            address,
            state,
            live: *live,
            own: *own,
            reported_unix_ms: *reported_unix_ms,
            age_ms: *age_ms,
            ceiling_unix_ms: *ceiling_unix_ms,
            limit_unix_ms: *limit_unix_ms,
        }
    }
}
