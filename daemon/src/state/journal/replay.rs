//! Reading a journal back, as plain functions. The last line of a tag counts.
//!
//! A bad end has two causes that look the same: a crash during the last write, which leafd never
//! reported as done, or damage to a line that it did report. So leafd drops what was left of every tag
//! that the line could have been about: the tag it names, or all tags whose names begin as it does.

use std::collections::HashMap;

use super::format::{JournalHeader, NAME, TagRecord, parse_header, parse_line, parse_retired};
use super::retired::RetiredDays;
use crate::ids::{BizTag, RangeQueue};
use crate::state::line::{checked, encode};
use crate::state::mark::FileMark;
use crate::state::properties::Damage;

/// What the content of a journal says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JournalReading {
    /// leafd can trust it.
    Whole {
        header: JournalHeader,
        /// The mark of the file that it was written to; older journals do not say.
        file: Option<FileMark>,
        tags: HashMap<BizTag, TagRecord>,
        /// What is left of tags of past days.
        retired: RetiredDays,
        /// Set if the last line was cut off.
        cut_off: Option<CutOffLine>,
    },
    /// leafd cannot trust it.
    Damaged {
        /// The first damage found.
        damage: Damage,
        /// The highest ends from the lines that are whole: they can only make leafd stricter.
        floors: HashMap<BizTag, u64>,
        /// As above, from such lines.
        retired: RetiredDays,
    },
}

impl JournalReading {
    /// The highest ends of all tags, and what is left of tags of past days, of which the latest of each
    /// series are among the former too.
    pub(crate) fn into_floors(self) -> (HashMap<BizTag, u64>, RetiredDays) {
        let (mut floors, retired): (HashMap<_, _>, _) = match self {
            Self::Whole { tags, retired, .. } => {
                (tags.into_iter().map(|(tag, record)| (tag, record.floor)).collect(), retired)
            }
            Self::Damaged { floors, retired, .. } => (floors, retired),
        };
        for (tag, mark) in retired.latest() {
            let floor = floors.entry(tag).or_insert(0);
            *floor = mark.max(*floor);
        }
        (floors, retired)
    }
}

/// What follows from a last line that was cut off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CutOffLine {
    /// What leafd did about it, for the log.
    pub(crate) text: String,
    /// The line may have been the only one of its tag, so the journal may lack a highest end.
    pub(crate) forgets_a_tag: bool,
}

/// Reads a journal's content.
pub(crate) fn read(content: &[u8]) -> JournalReading {
    match parse(content) {
        Ok((header, file, (tags, retired), cut_off)) => {
            JournalReading::Whole { header, file, tags, retired, cut_off }
        }
        Err(damage) => {
            let (floors, retired) = salvage(content);
            JournalReading::Damaged { damage, floors, retired }
        }
    }
}

type Lines = (HashMap<BizTag, TagRecord>, RetiredDays);
type Parsed = (JournalHeader, Option<FileMark>, Lines, Option<CutOffLine>);

fn parse(content: &[u8]) -> Result<Parsed, Damage> {
    let end = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, rest) = content.split_at_checked(end).unwrap_or_default();
    let text = std::str::from_utf8(whole)
        .map_err(|error| Damage::Content(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    let mut lines = text.lines();
    let header = lines.next().and_then(checked).and_then(parse_header);
    let (header, file) =
        header.ok_or_else(|| Damage::Content(format!("it does not begin with {NAME:?}")))?;
    let (mut tags, mut retired) = (HashMap::new(), RetiredDays::default());
    for (nth, line) in lines.enumerate() {
        if let Some((series, left)) = parse_retired(line) {
            retired.add(&series, left);
            continue;
        }
        let (tag, record) = parse_line(line)
            .ok_or_else(|| Damage::Content(format!("line {} is damaged", nth + 2)))?;
        tags.insert(tag, record);
    }
    let cut_off = (!rest.is_empty()).then(|| apply_cut_off(rest, &mut tags, &mut retired));
    Ok((header, file, (tags, retired), cut_off))
}

/// Applies a last line without a line break.
fn apply_cut_off(
    line: &[u8],
    tags: &mut HashMap<BizTag, TagRecord>,
    retired: &mut RetiredDays,
) -> CutOffLine {
    let text = std::str::from_utf8(line).ok();
    let is_whole = if let Some((tag, record)) = text.and_then(parse_line) {
        tags.insert(tag, record);
        true
    } else if let Some((series, left)) = text.and_then(parse_retired) {
        retired.add(&series, left);
        true
    } else {
        false
    };
    if is_whole {
        let text = "its last line lacks the line break, but is right".into();
        return CutOffLine { text, forgets_a_tag: false };
    }
    let name = NamePart::of(line);
    let mut doubtful = Vec::new();
    for (tag, record) in tags.iter_mut() {
        if name.may_be(tag) {
            record.left = RangeQueue::default();
            doubtful.push(tag.as_str());
        }
    }
    doubtful.sort_unstable();
    let forgets_a_tag = match name {
        NamePart::Whole(_) => doubtful.is_empty(),
        NamePart::Start(_) | NamePart::Unreadable => true,
    };
    let text = match (&name, doubtful.as_slice()) {
        (NamePart::Unreadable, _) => {
            "its last line was cut off before the name of its tag; leafd drops what was left of \
             all tags"
                .into()
        }
        (_, []) => "its last line was cut off; its tag has no other line".into(),
        (_, [tag]) => format!("its last line was cut off; leafd drops what was left of tag {tag}"),
        (_, [tag, more @ ..]) => format!(
            "its last line was cut off; leafd drops what was left of tag {tag} and of {} others \
             whose names begin alike",
            more.len()
        ),
    };
    CutOffLine { text, forgets_a_tag }
}

/// What a cut-off line says of its tag; the name is still encoded.
enum NamePart<'a> {
    Whole(&'a str),
    /// The line ends within the name or right after it.
    Start(&'a str),
    /// The line ends before the name, or leafd did not write it.
    Unreadable,
}

impl<'a> NamePart<'a> {
    fn of(line: &'a [u8]) -> Self {
        let Some((sum, rest)) = line.split_at_checked(8) else { return Self::Unreadable };
        let Some((b' ', rest)) = rest.split_first() else { return Self::Unreadable };
        let end = rest.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end).unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default();
        match after.first() {
            _ if name.is_empty() || !sum.iter().all(u8::is_ascii_hexdigit) => Self::Unreadable,
            None => Self::Start(name),
            Some(b' ') => Self::Whole(name),
            Some(_) => Self::Unreadable,
        }
    }

    fn may_be(&self, tag: &BizTag) -> bool {
        let mut encoded = String::with_capacity(tag.as_str().len());
        encode(tag.as_str(), &mut encoded);
        match self {
            Self::Whole(name) => encoded == *name,
            Self::Start(start) => encoded.starts_with(start),
            Self::Unreadable => true,
        }
    }
}

/// The highest ends, and what is left of tags of past days, from all lines of a damaged journal that are
/// whole.
pub(super) fn salvage(content: &[u8]) -> (HashMap<BizTag, u64>, RetiredDays) {
    let (mut floors, mut retired) = (HashMap::new(), RetiredDays::default());
    for line in content.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some((series, left)) = parse_retired(line) {
            retired.add(&series, left);
        } else if let Some((tag, record)) = parse_line(line) {
            let floor = floors.entry(tag).or_insert(0);
            *floor = record.floor.max(*floor);
        }
    }
    (floors, retired)
}
