//! Reads an ID in any form, and takes it apart as a snowflake ID, by the layout of those that leafd issues.

use hyper::StatusCode;
use leaf_client::form::{FormError, FormReading, IdForm, recognise};
use leaf_client::wire::{Call, Reply};
use leaf_client::{Layout, LayoutError};
use serde::Serialize;

use super::super::answer::{HttpAnswer, json, unexpected};
use super::super::caller::CallOutcome;
use super::super::forms::SnowflakeForms;
use super::super::problem::HttpProblem;
use super::super::query::number;
use super::super::request::HttpRequest;
use super::members::IdText;
use crate::rfc3339::rfc3339;

/// The parameters of the call.
const KNOWN: [&str; 2] = ["as", "tag"];

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
    match read(request) {
        Ok(document) => json(StatusCode::OK, &document).into(),
        Err(problem) => problem.into(),
    }
}

fn read(request: &mut HttpRequest<'_>) -> Result<DecodedDocument, HttpProblem> {
    let query = request.query(&KNOWN)?;
    let text = request.parameter()?;
    let tag = query.text("tag");
    let Some(form) = query.text("as") else {
        return match tag {
            Some(_) => Err(bad_request("tag goes with as=public".into())),
            None => decoded(request.server.snowflakes, &text, None),
        };
    };
    // A plus in a query is a space, and no name has one.
    match form.replace(' ', "+").parse() {
        Ok(IdForm::Public { prefix }) => public(request, &text, &prefix, tag),
        Ok(_) if tag.is_some() => Err(bad_request("tag goes with as=public".into())),
        Ok(form) => decoded(request.server.snowflakes, &text, Some(&form)),
        Err(error) => Err(bad_request(format!("as {form:?}: {error}"))),
    }
}

/// The number of a public ID, by leafd's keys, if the caller may know it.
fn public(
    request: &mut HttpRequest<'_>,
    text: &str,
    prefix: &str,
    tag: Option<&str>,
) -> Result<DecodedDocument, HttpProblem> {
    let Some(bare) = text.strip_prefix(prefix) else {
        return Err(bad_request(format!("id {text:?}: the prefix is not {prefix:?}")));
    };
    let tag = tag.unwrap_or_default();
    let outcome = request.ask(&Call::PublicDecode { tag, public_ids: vec![bare] });
    let id = match outcome {
        CallOutcome::Now(Reply::PublicNumbers(ids)) => ids.first().copied(),
        CallOutcome::Now(other) => return Err(unexpected(other)),
        // Memory answers this call at once.
        CallOutcome::Later(_) => None,
    };
    let id = id.ok_or_else(|| bad_request(format!("id {text:?}: leafd gave no number")))?;
    let layout = request.server.snowflakes.layout;
    let parts = if tag.is_empty() { parts(id, layout).ok() } else { None };
    let form = Some(format!("{prefix}public"));
    Ok(DecodedDocument { id: IdText(id), form, day: None, parts })
}

fn bad_request(text: String) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, text)
}

/// Reads any form, or only the one that is asked for.
fn decoded(
    snowflakes: SnowflakeForms,
    text: &str,
    form: Option<&IdForm>,
) -> Result<DecodedDocument, HttpProblem> {
    let SnowflakeForms { layout, fleet, .. } = snowflakes;
    let wrong = |error: &dyn std::fmt::Display| {
        HttpProblem::new(StatusCode::BAD_REQUEST, format!("id {text:?}: {error}"))
    };
    // A text of digits is the number, also with zeros in front.
    if form.is_none() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let id = number::<u64>("id", text)?;
        return Ok(document(id, None, Some(parts(id, layout).map_err(|error| wrong(&error))?)));
    }
    // The likeliest is first, and there is at least one.
    let reading = recognise(text, layout, fleet);
    let reading = reading.map(|readings| readings.into_iter().find(|found| is_of(found, form)));
    let reading = reading.and_then(|reading| reading.ok_or(FormError::Unrecognised));
    let reading = reading.map_err(|error| wrong(&error))?;
    let parts = match reading.day {
        Some(_) => None,
        None => Some(parts(reading.id, layout).map_err(|error| wrong(&error))?),
    };
    Ok(document(reading.id, Some(reading), parts))
}

/// Whether the reading is in this form. A day is read whatever the zone.
fn is_of(reading: &FormReading, form: Option<&IdForm>) -> bool {
    match form {
        None => true,
        Some(IdForm::Dated(_)) => reading.day.is_some(),
        Some(form) => reading.form == form.to_string(),
    }
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
