//! How leafctl prints a tag: as JSON, or one field per line; and the words for its fields.

use std::io::Write;

use leaf_client::wire::{Span, TagStatus};
use leafd::duration::rough;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};

const DAY_S: u64 = 86_400;

/// The JSON of a half-open range `[start, end)`.
#[derive(Debug, Serialize)]
struct SpanView {
    start: u64,
    end: u64,
}

impl From<Span> for SpanView {
    fn from(Span { start, end }: Span) -> Self {
        Self { start, end }
    }
}

/// The JSON of a tag.
#[derive(Debug, Serialize)]
pub(crate) struct TagView<'a> {
    tag: &'a str,
    description: &'a str,
    row_step: u64,
    step: u64,
    max_id: u64,
    current: Option<SpanView>,
    next: Option<SpanView>,
    position: u64,
    remaining: u64,
    issued: u64,
    leases: u64,
    last_lease_ms_ago: Option<u64>,
    last_lease_size: u64,
    waiting: u64,
    lease_error: &'a str,
    seconds_left: Option<u64>,
}

impl<'a> From<&'a TagStatus> for TagView<'a> {
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
            max_id: *max_id,
            current: current.map(Into::into),
            next: next.map(Into::into),
            position: *position,
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

pub(super) fn span(span: Option<Span>) -> String {
    span.map_or_else(|| "-".to_owned(), |Span { start, end }| format!("[{start}, {end})"))
}

pub(super) fn position(tag: &TagStatus) -> String {
    if tag.position == 0 { "-".to_owned() } else { tag.position.to_string() }
}

pub(super) fn last_lease(tag: &TagStatus) -> String {
    tag.last_lease_ms_ago.map_or_else(
        || "-".to_owned(),
        |age| format!("{} IDs, {} ago", grouped(tag.last_lease_size), rough(age)),
    )
}

/// How long the IDs in memory last at the present rate. What lasts longer than a day says no more
/// than that: after a burst, the few IDs of its end would promise months.
pub(crate) fn lasts(tag: &TagStatus) -> String {
    match tag.seconds_left {
        None => "idle".to_owned(),
        Some(0) => "0 s".to_owned(),
        Some(DAY_S..) => "over a day".to_owned(),
        Some(seconds) => rough(seconds.saturating_mul(1000)),
    }
}

/// Prints everything about one tag, one field per line.
pub(crate) fn print_all<W: Write>(tag: &TagStatus, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!("tag          {}", harmless(&tag.tag)))?;
    out.line(format_args!("description  {}", harmless(&tag.description)))?;
    out.line(format_args!("row step     {}", grouped(tag.row_step)))?;
    out.line(format_args!("next step    {}", grouped(tag.step)))?;
    out.line(format_args!("max_id       {}", tag.max_id))?;
    out.line(format_args!("current      {}", span(tag.current)))?;
    out.line(format_args!("next         {}", span(tag.next)))?;
    out.line(format_args!("position     {}", position(tag)))?;
    out.line(format_args!("remaining    {}", grouped(tag.remaining)))?;
    out.line(format_args!("lasts        {}", lasts(tag)))?;
    out.line(format_args!("issued       {}", grouped(tag.issued)))?;
    out.line(format_args!("leases       {}", grouped(tag.leases)))?;
    out.line(format_args!("last lease   {}", last_lease(tag)))?;
    out.line(format_args!("waiting      {}", grouped(tag.waiting)))?;
    if !tag.lease_error.is_empty() {
        out.line(format_args!("error        {}", harmless(&tag.lease_error)))?;
    }
    Ok(())
}
