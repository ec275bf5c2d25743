//! The segment journal: for each tag the highest end seen and the ranges above the durable
//! ceiling. Lines are appended and synced; the last line of a tag counts. When most lines are
//! outdated, the file is written anew.
//!
//! A line is `CHECKSUM TAG FLOOR USED RANGES`: CRC-32 of the rest in hex, the tag with spaces and
//! odd bytes percent-encoded, the highest end seen, the time of writing in seconds since 1970, and
//! the ranges as `START-END,…` or `-`.
//!
//! The first line is `CHECKSUM leafd-segments VERSION GENERATION MARK BASE`. The generation is raised
//! at each start, here and in the other files, so that an old copy that was put back is noticed. The
//! mark is the file's own, so that a copy of it is. Tags without a line start at or above the base.
//! Older journals have neither mark nor base.
//!
//! A bad end has two causes that look the same: a crash during the last write, which nobody was
//! told of, or damage to a line that somebody was told of. So leafd drops what was left of every tag
//! that the line could have been about: the one it names, or those whose names begin as it does.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::durable;
use super::mark::FileMark;
use super::properties::Damage;
use crate::ids::{BizTag, Range, RangeQueue};

/// Its name in the state directory.
pub const FILE: &str = "segments.journal";

/// The name of the file beside it that is replaced at every write. It holds only its own mark: the
/// journal stays one file for as long as leafd runs, so a copy written over it would not show.
pub const MARK_FILE: &str = "segments.mark";

const NAME: &str = "leafd-segments 1";

/// Outdated lines that are tolerated before the file is written anew.
const SLACK: usize = 20_000;

/// What the disk says about a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRecord {
    /// The highest end of a range that this host has seen.
    pub floor: u64,
    /// When it was last written, in seconds since 1970, by the host's clock.
    pub used_s: u64,
    /// The ranges above the durable ceiling.
    pub left: RangeQueue,
}

/// What the first line says of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHeader {
    /// Counts the starts.
    pub generation: u64,
    /// Every tag without a line starts at or above this; 0 when nothing was lost.
    pub base: u64,
}

/// The journal, open for appending.
#[derive(Debug)]
pub struct SegmentJournal {
    path: PathBuf,
    header: JournalHeader,
    file: File,
    lines: usize,
    tags: HashMap<BizTag, TagRecord>,
    /// After a failed write nobody knows what the file holds: write it anew.
    suspect: bool,
    /// How often the mark was renewed.
    renewed: usize,
}

/// What a journal's content says.
#[derive(Debug, PartialEq, Eq)]
pub enum JournalReading {
    /// It can be trusted.
    Whole {
        /// Its first line.
        header: JournalHeader,
        /// The file that it was written to; older journals do not say.
        file: Option<FileMark>,
        /// Every tag.
        tags: HashMap<BizTag, TagRecord>,
        /// Set when its last line was not whole.
        doubt: Option<Doubt>,
    },
    /// It cannot.
    Damaged {
        /// What was noticed first.
        damage: Damage,
        /// The highest ends, from the lines that are whole: they can only make leafd stricter.
        floors: HashMap<BizTag, u64>,
    },
}

impl JournalReading {
    /// The highest ends.
    #[must_use]
    pub fn into_floors(self) -> HashMap<BizTag, u64> {
        match self {
            Self::Whole { tags, .. } => {
                tags.into_iter().map(|(tag, record)| (tag, record.floor)).collect()
            }
            Self::Damaged { floors, .. } => floors,
        }
    }
}

/// What leafd made of a last line that was cut off.
#[derive(Debug, PartialEq, Eq)]
pub struct Doubt {
    /// For people.
    pub text: String,
    /// The line may have been the only one of its tag, so the journal may lack a highest end.
    pub forgets_a_tag: bool,
}

impl SegmentJournal {
    /// Makes a journal with these tags, in the place of another if need be.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(
        path: &Path,
        header: JournalHeader,
        tags: HashMap<BizTag, TagRecord>,
    ) -> io::Result<Self> {
        durable::replace_marked(path, |file| whole_text(header, file, &tags))?;
        let file = OpenOptions::new().append(true).open(path)?;
        let lines = tags.len();
        let path = path.to_owned();
        let mut this = Self { path, header, file, lines, tags, suspect: false, renewed: 0 };
        this.renew_mark();
        Ok(this)
    }

    /// Without it leafd detects fewer copies, which is no reason to refuse IDs.
    fn renew_mark(&mut self) {
        self.renewed = self.renewed.wrapping_add(1);
        let path = self.path.with_file_name(MARK_FILE);
        if let Err(error) = durable::renew_mark(&path, self.renewed) {
            tracing::debug!("{MARK_FILE} cannot be written: {error}");
        }
    }

    /// Every tag.
    #[must_use]
    pub const fn tags(&self) -> &HashMap<BizTag, TagRecord> {
        &self.tags
    }

    /// Writes records and syncs them. After an error, what the file holds is not known, and the
    /// next call writes all of it anew.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn append(&mut self, records: Vec<(BizTag, TagRecord)>) -> io::Result<()> {
        let records = self.keeping_marks(records);
        let mut text = String::new();
        for (tag, record) in &records {
            push_line(&mut text, tag, record);
        }
        self.lines += records.len();
        self.tags.extend(records);
        // Somebody has removed or replaced the file: what is appended to it would be gone.
        let removed = self.file.metadata().map_or(true, |file| file.nlink() == 0);
        if self.suspect || removed || self.lines > 2 * self.tags.len() + SLACK {
            return self.rewrite();
        }
        self.suspect = true;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.suspect = false;
        self.renew_mark();
        Ok(())
    }

    /// Whoever makes a tag may know of a higher mark than the tag's buffer does.
    fn keeping_marks(&self, mut records: Vec<(BizTag, TagRecord)>) -> Vec<(BizTag, TagRecord)> {
        for (tag, record) in &mut records {
            let known = self.tags.get(tag).map_or(0, |known| known.floor);
            record.floor = record.floor.max(known);
        }
        records
    }

    /// Raises high-water marks and syncs them. What is left of a tag stays as it is.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn raise(&mut self, marks: Vec<(BizTag, u64)>) -> io::Result<()> {
        let records = marks.into_iter().filter_map(|(tag, mark)| {
            let known = self.tags.get(&tag).cloned();
            let unused = || TagRecord { floor: 0, used_s: 0, left: RangeQueue::default() };
            let record = known.unwrap_or_else(unused);
            (record.floor < mark).then_some((tag, TagRecord { floor: mark, ..record }))
        });
        let records: Vec<_> = records.collect();
        if records.is_empty() && !self.suspect {
            return Ok(());
        }
        self.append(records)
    }

    /// Writes records and syncs them, to a file that is new: as the last one of a life, so that a
    /// copy that was made of the journal before is recognised even when it is written over it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn finish(&mut self, records: Vec<(BizTag, TagRecord)>) -> io::Result<()> {
        self.tags.extend(self.keeping_marks(records));
        self.rewrite()
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.suspect = true;
        durable::replace_marked(&self.path, |file| whole_text(self.header, file, &self.tags))?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.lines = self.tags.len();
        self.suspect = false;
        self.renew_mark();
        Ok(())
    }
}

fn whole_text(header: JournalHeader, file: FileMark, tags: &HashMap<BizTag, TagRecord>) -> String {
    let mut text = String::new();
    let JournalHeader { generation, base } = header;
    push_checked(&mut text, &format!("{NAME} {generation} {} {base}", file.write()));
    for (tag, record) in tags {
        push_line(&mut text, tag, record);
    }
    text
}

/// Reads a journal's content.
#[must_use]
pub fn read(content: &[u8]) -> JournalReading {
    match parse(content) {
        Ok((header, file, tags, doubt)) => JournalReading::Whole { header, file, tags, doubt },
        Err(damage) => JournalReading::Damaged { damage, floors: salvage(content) },
    }
}

type Parsed = (JournalHeader, Option<FileMark>, HashMap<BizTag, TagRecord>, Option<Doubt>);

fn parse(content: &[u8]) -> Result<Parsed, Damage> {
    let end = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, rest) = content.split_at_checked(end).unwrap_or_default();
    let text = std::str::from_utf8(whole)
        .map_err(|error| Damage::Content(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    let mut lines = text.lines();
    let header = lines.next().and_then(checked).and_then(parse_header);
    let (header, file) =
        header.ok_or_else(|| Damage::Content(format!("it does not begin with {NAME:?}")))?;
    let mut tags = HashMap::new();
    for (nth, line) in lines.enumerate() {
        let (tag, record) = parse_line(line)
            .ok_or_else(|| Damage::Content(format!("line {} is damaged", nth + 2)))?;
        tags.insert(tag, record);
    }
    let doubt = (!rest.is_empty()).then(|| take_in_rest(rest, &mut tags));
    Ok((header, file, tags, doubt))
}

fn parse_header(line: &str) -> Option<(JournalHeader, Option<FileMark>)> {
    let mut fields = line.strip_prefix(NAME)?.trim_start().split(' ');
    let generation = fields.next()?.parse().ok()?;
    let file = fields.next().map(|mark| FileMark::read(mark).ok_or(())).transpose().ok()?;
    let base = fields.next().map(str::parse).transpose().ok()?.unwrap_or_default();
    fields.next().is_none().then_some((JournalHeader { generation, base }, file))
}

/// A last line without its line break.
fn take_in_rest(rest: &[u8], tags: &mut HashMap<BizTag, TagRecord>) -> Doubt {
    let whole = std::str::from_utf8(rest).ok().and_then(parse_line);
    if let Some((tag, record)) = whole {
        tags.insert(tag, record);
        let text = "its last line lacks the line break, and is right".into();
        return Doubt { text, forgets_a_tag: false };
    }
    let name = NamePart::of(rest);
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
        (_, []) => "its last line was cut off; it was of a tag that has no other line".into(),
        (_, [tag]) => format!("its last line was cut off; leafd drops what was left of tag {tag}"),
        (_, [tag, more @ ..]) => format!(
            "its last line was cut off; leafd drops what was left of tag {tag} and of {} others \
             whose names begin alike",
            more.len()
        ),
    };
    Doubt { text, forgets_a_tag }
}

/// What a cut line says of its tag, as the file has the name.
enum NamePart<'a> {
    Whole(&'a str),
    /// The line ends within the name, or right after it.
    Start(&'a str),
    /// It ends before the name, or is not what leafd writes.
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
        encode_tag(tag.as_str(), &mut encoded);
        match self {
            Self::Whole(name) => encoded == *name,
            Self::Start(start) => encoded.starts_with(start),
            Self::Unreadable => true,
        }
    }
}

fn salvage(content: &[u8]) -> HashMap<BizTag, u64> {
    let mut floors = HashMap::new();
    for line in content.split(|byte| *byte == b'\n') {
        let record = std::str::from_utf8(line).ok().and_then(parse_line);
        if let Some((tag, record)) = record {
            let floor = floors.entry(tag).or_insert(0);
            *floor = record.floor.max(*floor);
        }
    }
    floors
}

fn push_line(out: &mut String, tag: &BizTag, record: &TagRecord) {
    let mut line = String::with_capacity(64);
    encode_tag(tag.as_str(), &mut line);
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

pub(super) fn push_checked(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{:08x} {line}", crc32fast::hash(line.as_bytes()));
}

/// A line without its checksum, if that is right.
pub(super) fn checked(line: &str) -> Option<&str> {
    let (sum, rest) = line.split_once(' ')?;
    (format!("{:08x}", crc32fast::hash(rest.as_bytes())) == sum).then_some(rest)
}

fn parse_line(line: &str) -> Option<(BizTag, TagRecord)> {
    let mut fields = checked(line)?.split(' ');
    let tag = BizTag::new(&decode_tag(fields.next()?)?).ok()?;
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

pub(super) fn encode_tag(tag: &str, out: &mut String) {
    for byte in tag.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
}

pub(super) fn decode_tag(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: JournalHeader = JournalHeader { generation: 7, base: 5 };

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn record(floor: u64, left: &[(u64, u64)]) -> TagRecord {
        let left = left.iter().map(|&(start, end)| Range::new(start, end).unwrap()).collect();
        TagRecord { floor, used_s: 1, left }
    }

    fn journal(
        dir: &tempfile::TempDir,
        records: &[(&str, TagRecord)],
    ) -> (SegmentJournal, PathBuf) {
        let path = dir.path().join(FILE);
        let mut journal = SegmentJournal::create(&path, HEADER, HashMap::new()).unwrap();
        for (name, record) in records {
            journal.append(vec![(tag(name), record.clone())]).unwrap();
        }
        (journal, path)
    }

    fn reopened(path: &Path) -> HashMap<BizTag, TagRecord> {
        match read(&std::fs::read(path).unwrap()) {
            JournalReading::Whole { header, file, tags, doubt } => {
                assert_eq!((header, doubt), (HEADER, None));
                assert_eq!(file, Some(FileMark::of(&std::fs::metadata(path).unwrap())));
                tags
            }
            JournalReading::Damaged { damage, .. } => panic!("{damage}"),
        }
    }

    #[test]
    fn the_last_line_of_a_tag_counts() {
        let dir = tempfile::tempdir().unwrap();
        let odd = "a b%\u{e9}🦀/'\"";
        let (_, path) = journal(
            &dir,
            &[
                ("a", record(2001, &[(1, 2001)])),
                (odd, record(9, &[])),
                ("a", record(4001, &[(101, 2001), (3001, 4001)])),
            ],
        );
        let tags = reopened(&path);
        assert_eq!(tags.len(), 2);
        assert_eq!(tags[&tag("a")], record(4001, &[(101, 2001), (3001, 4001)]));
        assert_eq!(tags[&tag(odd)], record(9, &[]));
    }

    #[test]
    fn no_record_lowers_a_high_water_mark_not_even_the_last_one_of_a_life() {
        for is_last in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut journal, path) = journal(&dir, &[("a", record(2001, &[]))]);
            journal.raise(vec![(tag("a"), 5_000_001)]).unwrap();
            let late = vec![(tag("a"), record(2001, &[]))];
            if is_last { journal.finish(late) } else { journal.append(late) }.unwrap();
            assert_eq!(reopened(&path)[&tag("a")], record(5_000_001, &[]), "{is_last}");
        }
    }

    /// The content after `[1, 2001)` of `a` was leased and 100 of it were given out.
    fn given_out(dir: &tempfile::TempDir) -> (Vec<u8>, usize) {
        let (mut journal, path) =
            journal(dir, &[("b", record(9, &[(3, 9)])), ("a", record(2001, &[(1, 2001)]))]);
        let before = std::fs::read(&path).unwrap().len();
        journal.append(vec![(tag("a"), record(2001, &[(101, 2001)]))]).unwrap();
        (std::fs::read(&path).unwrap(), before)
    }

    #[test]
    fn a_line_that_was_cut_off_gives_up_what_it_could_have_said_and_keeps_the_highest_end() {
        let dir = tempfile::tempdir().unwrap();
        let (content, before) = given_out(&dir);
        for cut in before + 1..content.len() {
            let JournalReading::Whole { tags, doubt, .. } = read(&content[..cut]) else { panic!() };
            assert!(doubt.is_some(), "cut at {cut}");
            let a = &tags[&tag("a")];
            assert_eq!(a.floor, 2001);
            // Never what the line before it said: those may have been given out.
            assert!(a.left.total() == 0 || a.left.position() == Some(101), "cut at {cut}");
            let b = tags[&tag("b")].left.total();
            assert!(b == 6 || cut < before + 10, "only when the tag cannot be read: {cut}");
        }
    }

    #[test]
    fn a_cut_line_of_a_new_tag_gives_up_nothing_of_other_tags_but_those_it_could_name() {
        let dir = tempfile::tempdir().unwrap();
        let known = ["alpha", "beta", "be"].map(|name| (name, record(9, &[(3, 9)])));
        let (mut journal, path) = journal(&dir, &known);
        let before = std::fs::read(&path).unwrap().len();
        journal.append(vec![(tag("beyond"), record(2001, &[(101, 2001)]))]).unwrap();
        let content = std::fs::read(&path).unwrap();
        let left = |cut: usize| {
            let JournalReading::Whole { tags, doubt, .. } = read(&content[..cut]) else { panic!() };
            let doubt = doubt.unwrap();
            assert!(doubt.forgets_a_tag || tags.contains_key(&tag("beyond")), "cut at {cut}");
            let mut left: Vec<_> =
                tags.iter().filter(|(_, record)| record.left.total() > 0).collect();
            left.sort_unstable_by_key(|(tag, _)| tag.as_str());
            left.into_iter().map(|(tag, _)| tag.as_str().to_owned()).collect::<Vec<_>>()
        };
        let name = before + "01234567 ".len();
        for cut in before + 1..=name {
            assert!(left(cut).is_empty(), "the line could be of any tag: {cut}");
        }
        assert_eq!(left(name + 1), ["alpha"]);
        assert_eq!(left(name + 2), ["alpha"]);
        for cut in name + 3..content.len() - 1 {
            assert_eq!(left(cut), ["alpha", "be", "beta"], "cut at {cut}");
        }
    }

    #[test]
    fn an_end_that_leafd_did_not_write_gives_up_what_was_left_of_all_tags() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = journal(&dir, &[("a", record(9, &[(3, 9)]))]);
        let content = std::fs::read(&path).unwrap();
        for end in ["\0\0\0\0\0\0\0\0\0\0\0\0", "01234567 \0\0", "0123456z b 5", "01234567 b\0"] {
            let content = [&content, end.as_bytes()].concat();
            let JournalReading::Whole { tags, doubt, .. } = read(&content) else { panic!() };
            assert_eq!((tags[&tag("a")].left.total(), tags[&tag("a")].floor), (0, 9), "{end:?}");
            assert!(doubt.unwrap().forgets_a_tag);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_the_highest_ends_of_whole_lines_are_salvaged() {
        let dir = tempfile::tempdir().unwrap();
        let (good, before) = given_out(&dir);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                match read(&bad) {
                    JournalReading::Damaged { floors, .. } => {
                        assert!(floors.values().all(|floor| [2001, 9].contains(floor)));
                        assert!(at < before || floors[&tag("a")] == 2001);
                    }
                    // The last line break is gone, and the line before it right or given up.
                    JournalReading::Whole { tags, doubt, .. } => {
                        assert_eq!(at, good.len() - 1, "bit {bit} of byte {at} went unnoticed");
                        assert!(doubt.is_some());
                        assert_ne!(tags[&tag("a")].left.position(), Some(1));
                    }
                }
            }
        }
    }

    #[test]
    fn a_journal_of_an_older_version_is_read_and_does_not_say_which_file_it_was() {
        let mut text = String::new();
        push_checked(&mut text, "leafd-segments 1 7");
        push_line(&mut text, &tag("a"), &record(9, &[(3, 9)]));
        let JournalReading::Whole { header, file, tags, .. } = read(text.as_bytes()) else {
            panic!()
        };
        assert_eq!((header, file), (JournalHeader { generation: 7, base: 0 }, None));
        assert_eq!(tags[&tag("a")], record(9, &[(3, 9)]));
        for bad in
            ["leafd-segments 1 7 x 0", "leafd-segments 1 7 5@6 x", "leafd-segments 1 7 5 6 7"]
        {
            let mut text = String::new();
            push_checked(&mut text, bad);
            assert!(matches!(read(text.as_bytes()), JournalReading::Damaged { .. }), "{bad}");
        }
    }

    #[test]
    fn the_last_record_of_a_life_is_in_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, path) = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
        let copy = std::fs::read(&path).unwrap();
        journal.finish(vec![(tag("a"), record(2001, &[(301, 2001)]))]).unwrap();
        assert_eq!(reopened(&path)[&tag("a")].left.position(), Some(301));
        // Written over the file, so that inode and time are those of the file as it is.
        std::fs::write(&path, copy).unwrap();
        let JournalReading::Whole { file, .. } = read(&std::fs::read(&path).unwrap()) else {
            panic!()
        };
        assert!(file.unwrap().differs_from(FileMark::of(&std::fs::metadata(&path).unwrap())));
    }

    #[test]
    fn a_journal_that_somebody_removed_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, path) = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
        std::fs::remove_file(&path).unwrap();
        journal.append(vec![(tag("b"), record(9, &[(3, 9)]))]).unwrap();
        assert_eq!(reopened(&path).len(), 2);
    }

    #[test]
    fn an_outdated_file_is_written_anew_and_says_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, path) = journal(&dir, &[("b", record(9, &[(3, 9)]))]);
        let many = |from: u64| {
            (0..SLACK as u64 / 2).map(move |n| (tag("a"), record(1 << 40, &[(from + n, 1 << 40)])))
        };
        for from in [1, 1_000_000, 2_000_000] {
            journal.append(many(from).collect()).unwrap();
        }
        let content = std::fs::read_to_string(&path).unwrap();
        assert_eq!(content.lines().count(), 3, "header and two tags");
        journal.append(vec![(tag("c"), record(5, &[(4, 5)]))]).unwrap();
        let tags = reopened(&path);
        assert_eq!(tags[&tag("a")].left.position(), Some(2_000_000 + SLACK as u64 / 2 - 1));
        assert_eq!((tags[&tag("b")].floor, tags[&tag("c")].floor), (9, 5));
    }

    #[test]
    fn after_a_failed_write_the_whole_file_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, path) = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
        // A file that cannot be written to stands in for a disk that fails.
        journal.file = File::open(&path).unwrap();
        assert!(journal.append(vec![(tag("a"), record(2001, &[(101, 2001)]))]).is_err());
        journal.append(vec![(tag("b"), record(5, &[(4, 5)]))]).unwrap();
        let tags = reopened(&path);
        assert_eq!(tags[&tag("a")], record(2001, &[(101, 2001)]));
        assert_eq!(tags.len(), 2);
    }

    proptest! {
        #[test]
        fn any_content_is_read_or_refused_and_never_a_panic(content in any::<Vec<u8>>()) {
            let mut file = whole_text(HEADER, FileMark::read("7@8").unwrap(), &HashMap::new()).into_bytes();
            file.extend(&content);
            let _ = (read(&content), read(&file));
            prop_assert!(salvage(&content).is_empty());
        }

        #[test]
        fn any_tag_survives_its_encoding(name in "\\PC{1,40}") {
            let mut text = String::new();
            encode_tag(&name, &mut text);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decode_tag(&text), Some(name));
        }
    }
}
