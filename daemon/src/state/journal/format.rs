//! The journal as text: its first line, the lines of tags, and the ranges in them.
//!
//! A line is `CHECKSUM TAG FLOOR USED RANGES`: CRC-32 of the rest in hex, the tag with spaces and odd
//! bytes percent-encoded, the highest end seen, the time of writing in seconds since 1970, and the
//! ranges as `START-END,…` or `-`.
//!
//! What is left of a series of tags of past days is `CHECKSUM SERIES FLOOR DAY - retired`. Such lines come before
//! those of tags, in a file that was written as a whole: so if there are tags, a line that was cut off is one's.
//!
//! The first line is `CHECKSUM leafd-segments VERSION GENERATION MARK BASE`. Older journals have neither
//! mark nor base.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::retired::{RetiredDays, RetiredSeries};
use crate::ids::{BizTag, Range, RangeQueue};
use crate::state::line::{checked, decode, encode, push_checked};
use crate::state::mark::FileMark;

/// How a journal begins, after the checksum.
pub(super) const NAME: &str = "leafd-segments 1";

/// What the journal says about a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRecord {
    /// The highest end of a range that this host has seen.
    pub floor: u64,
    /// When the record was last written, in seconds since 1970 by this host's clock.
    pub used_s: u64,
    /// The ranges above the durable ceiling.
    pub left: RangeQueue,
}

/// What the first line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    /// The number of the start that wrote the journal. Each start raises it here and in the other
    /// files, so an old copy of one file shows.
    pub(crate) generation: u64,
    /// Every tag without a line starts at or above this; 0 if nothing was lost.
    pub(crate) base: u64,
}

/// The whole text of a journal in the file with the mark `file`.
pub(super) fn whole_text(
    header: JournalHeader,
    file: FileMark,
    tags: &HashMap<BizTag, TagRecord>,
    retired: &RetiredDays,
) -> String {
    let mut text = String::new();
    let JournalHeader { generation, base } = header;
    push_checked(&mut text, &format!("{NAME} {generation} {} {base}", file.write()));
    for (series, RetiredSeries { through, floor }) in retired.iter() {
        let mut line = String::with_capacity(64);
        encode(series, &mut line);
        // Writing to a String cannot fail.
        let _ = write!(line, " {floor} {through} - {RETIRED}");
        push_checked(&mut text, &line);
    }
    for (tag, record) in tags {
        push_line(&mut text, tag, record);
    }
    text
}

/// Reads a first line without its checksum: the header, and the mark of the file that it was written to.
pub(super) fn parse_header(line: &str) -> Option<(JournalHeader, Option<FileMark>)> {
    let mut fields = line.strip_prefix(NAME)?.trim_start().split(' ');
    let generation = fields.next()?.parse().ok()?;
    let file = fields.next().map(|mark| FileMark::read(mark).ok_or(())).transpose().ok()?;
    let base = fields.next().map(str::parse).transpose().ok()?.unwrap_or_default();
    fields.next().is_none().then_some((JournalHeader { generation, base }, file))
}

pub(super) fn push_line(out: &mut String, tag: &BizTag, record: &TagRecord) {
    let mut line = String::with_capacity(64);
    encode(tag.as_str(), &mut line);
    // Writing to a String cannot fail.
    let _ = write!(line, " {} {} ", record.floor, record.used_s);
    for (nth, range) in record.left.iter().enumerate() {
        let comma = if nth > 0 { "," } else { "" };
        let _ = write!(line, "{comma}{}-{}", range.start(), range.end());
    }
    if record.left.total() == 0 {
        line.push('-');
    }
    push_checked(out, &line);
}

/// How the line of a series ends.
const RETIRED: &str = "retired";

/// Reads the line of a series.
pub(super) fn parse_retired(line: &str) -> Option<(String, RetiredSeries)> {
    let line = checked(line)?.strip_suffix(RETIRED)?.strip_suffix(" - ")?;
    let mut fields = line.split(' ');
    let series = decode(fields.next()?)?;
    let floor = fields.next()?.parse().ok()?;
    let through = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((series, RetiredSeries { through, floor }))
}

pub(super) fn parse_line(line: &str) -> Option<(BizTag, TagRecord)> {
    let mut fields = checked(line)?.split(' ');
    let tag = BizTag::new(&decode(fields.next()?)?).ok()?;
    let floor = fields.next()?.parse().ok()?;
    let used_s = fields.next()?.parse().ok()?;
    let left = match fields.next()? {
        "-" => RangeQueue::default(),
        ranges => ranges.split(',').map(parse_range).collect::<Option<RangeQueue>>()?,
    };
    fields.next().is_none().then_some((tag, TagRecord { floor, used_s, left }))
}

fn parse_range(text: &str) -> Option<Range> {
    let (start, end) = text.split_once('-')?;
    Range::new(start.parse().ok()?, end.parse().ok()?)
}
