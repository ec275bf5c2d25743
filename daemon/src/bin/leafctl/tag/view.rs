//! How leafctl prints tags: as JSON, as a table, or as lines.

use std::io::Write;

use leaf_client::wire::{Span, TagStatus};
use leafd::duration::rough;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};
use crate::table::{Align, TextTable};

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

fn span(span: Option<Span>) -> String {
    span.map_or_else(|| "-".to_owned(), |Span { start, end }| format!("[{start}, {end})"))
}

fn position(tag: &TagStatus) -> String {
    if tag.position == 0 { "-".to_owned() } else { tag.position.to_string() }
}

fn last_lease(tag: &TagStatus) -> String {
    tag.last_lease_ms_ago.map_or_else(
        || "-".to_owned(),
        |age| format!("{} IDs, {} ago", grouped(tag.last_lease_size), rough(age)),
    )
}

/// How long the IDs in memory last.
fn lasts(tag: &TagStatus) -> String {
    match tag.seconds_left {
        None => "-".to_owned(),
        Some(0) => "0 s".to_owned(),
        Some(seconds) => rough(seconds.saturating_mul(1000)),
    }
}

/// Prints a table of what leafd holds of each tag in memory.
pub(crate) fn print_ranges<W: Write>(
    tags: &[TagStatus],
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut table = TextTable::new([
        ("TAG", Align::Left),
        ("CURRENT", Align::Left),
        ("NEXT", Align::Left),
        ("POSITION", Align::Right),
        ("STEP", Align::Right),
        ("REMAINING", Align::Right),
        ("LASTS", Align::Right),
        ("LAST LEASE", Align::Left),
        ("ERROR", Align::Left),
    ]);
    for tag in tags {
        table.row([
            harmless(&tag.tag),
            span(tag.current),
            span(tag.next),
            position(tag),
            grouped(tag.step),
            grouped(tag.remaining),
            lasts(tag),
            last_lease(tag),
            harmless(&tag.lease_error),
        ]);
    }
    table.print(out)
}

/// Prints a table of what the store holds of each tag.
pub(crate) fn print_rows<W: Write>(tags: &[TagStatus], out: &mut Output<W>) -> Result<(), Failure> {
    let mut table = TextTable::new([
        ("TAG", Align::Left),
        ("STEP", Align::Right),
        ("MAX_ID", Align::Right),
        ("ISSUED", Align::Right),
        ("DESCRIPTION", Align::Left),
    ]);
    for tag in tags {
        table.row([
            harmless(&tag.tag),
            tag.row_step.to_string(),
            tag.max_id.to_string(),
            grouped(tag.issued),
            harmless(&tag.description),
        ]);
    }
    table.print(out)
}

/// Prints everything about one tag, one field per line.
pub(crate) fn print_all<W: Write>(tag: &TagStatus, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!("tag          {}", harmless(&tag.tag)))?;
    out.line(format_args!("description  {}", harmless(&tag.description)))?;
    out.line(format_args!("step         {} in the row, {} next", tag.row_step, tag.step))?;
    out.line(format_args!("max_id       {}", tag.max_id))?;
    out.line(format_args!("current      {}", span(tag.current)))?;
    out.line(format_args!("next         {}", span(tag.next)))?;
    out.line(format_args!("position     {}", position(tag)))?;
    out.line(format_args!("remaining    {}", grouped(tag.remaining)))?;
    out.line(format_args!("lasts        {}", lasts(tag)))?;
    out.line(format_args!("issued       {}", grouped(tag.issued)))?;
    out.line(format_args!("leases       {}", grouped(tag.leases)))?;
    out.line(format_args!("last lease   {}", last_lease(tag)))?;
    out.line(format_args!("waiting      {}", tag.waiting))?;
    if !tag.lease_error.is_empty() {
        out.line(format_args!("error        {}", harmless(&tag.lease_error)))?;
    }
    Ok(())
}
