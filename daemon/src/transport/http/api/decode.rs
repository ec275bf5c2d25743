//! Takes a snowflake ID apart, by the layout of the IDs that leafd issues.

use hyper::StatusCode;
use serde::Serialize;

use super::super::answer::{HttpAnswer, json};
use super::super::problem::HttpProblem;
use super::super::query::number;
use super::super::request::HttpRequest;
use super::members::IdText;
use crate::rfc3339::rfc3339;

#[derive(Debug, Serialize)]
struct DecodedDocument {
    id: IdText,
    time: String,
    unix_ms: u64,
    worker: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacenter: Option<u64>,
    sequence: u64,
    layout: String,
}

pub(super) fn decode(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let layout = request.server.layout;
    let id = request.query(&[]).and_then(|_| number::<u64>("id", &request.parameter()?));
    let decoded = id.and_then(|id| {
        let parts = layout.decode(id);
        parts
            .map(|parts| (id, parts))
            .map_err(|error| HttpProblem::new(StatusCode::BAD_REQUEST, error.to_string()))
    });
    match decoded {
        Ok((id, parts)) => {
            let document = DecodedDocument {
                id: IdText(id),
                time: rfc3339(parts.unix_ms),
                unix_ms: parts.unix_ms,
                worker: parts.worker,
                datacenter: parts.datacenter,
                sequence: parts.sequence,
                layout: layout.to_string(),
            };
            json(StatusCode::OK, &document).into()
        }
        Err(problem) => problem.into(),
    }
}
