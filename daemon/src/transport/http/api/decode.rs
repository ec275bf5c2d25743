//! Reads an ID in any form, and takes it apart as a snowflake ID, by the layout of those that leafd issues.

use hyper::StatusCode;
use leaf_client::form::{FormError, FormReading, recognise};
use leaf_client::{Layout, LayoutError};
use serde::Serialize;

use super::super::answer::{HttpAnswer, json};
use super::super::forms::SnowflakeForms;
use super::super::problem::HttpProblem;
use super::super::query::number;
use super::super::request::HttpRequest;
use super::members::IdText;
use crate::rfc3339::rfc3339;

#[derive(Debug, Serialize)]
struct DecodedDocument {
    id: IdText,
    /// What the text was, unless it was the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
    /// The day that the number is of: then it is of a tag, and has no parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    #[serde(flatten)]
    parts: Option<PartsDocument>,
}

#[derive(Debug, Serialize)]
struct PartsDocument {
    time: String,
    unix_ms: u64,
    worker: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacenter: Option<u64>,
    sequence: u64,
    layout: String,
}

pub(super) fn decode(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let parameter = request.query(&[]).and_then(|_| request.parameter());
    match parameter.and_then(|text| decoded(request.server.snowflakes, &text)) {
        Ok(document) => json(StatusCode::OK, &document).into(),
        Err(problem) => problem.into(),
    }
}

fn decoded(snowflakes: SnowflakeForms, text: &str) -> Result<DecodedDocument, HttpProblem> {
    let SnowflakeForms { layout, fleet, .. } = snowflakes;
    let wrong = |error: &dyn std::fmt::Display| {
        HttpProblem::new(StatusCode::BAD_REQUEST, format!("id {text:?}: {error}"))
    };
    // A text of digits is the number, also with zeros in front.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let id = number::<u64>("id", text)?;
        return Ok(document(id, None, Some(parts(id, layout).map_err(|error| wrong(&error))?)));
    }
    // The likeliest is first, and there is at least one.
    let reading = recognise(text, layout, fleet).map(|readings| readings.into_iter().next());
    let reading = reading.and_then(|reading| reading.ok_or(FormError::Unrecognised));
    let reading = reading.map_err(|error| wrong(&error))?;
    let parts = match reading.day {
        Some(_) => None,
        None => Some(parts(reading.id, layout).map_err(|error| wrong(&error))?),
    };
    Ok(document(reading.id, Some(reading), parts))
}

fn document(
    id: u64,
    reading: Option<FormReading>,
    parts: Option<PartsDocument>,
) -> DecodedDocument {
    let (form, day) = reading.map(|reading| (reading.form, reading.day)).unzip();
    DecodedDocument { id: IdText(id), form, day: day.flatten().map(|day| day.to_string()), parts }
}

fn parts(id: u64, layout: Layout) -> Result<PartsDocument, LayoutError> {
    let parts = layout.decode(id)?;
    Ok(PartsDocument {
        time: rfc3339(parts.unix_ms),
        unix_ms: parts.unix_ms,
        worker: parts.worker,
        datacenter: parts.datacenter,
        sequence: parts.sequence,
        layout: layout.to_string(),
    })
}
