//! The segment journal: for each tag the highest end seen and the ranges above the durable
//! ceiling. Lines are appended and synced; the last line of a tag counts. When most lines are
//! outdated, the file is written anew.
//!
//! A line is `CHECKSUM TAG FLOOR USED RANGES`: CRC-32 of the rest in hex, the tag with spaces and
//! odd bytes percent-encoded, the highest end seen, the time of writing in seconds since 1970, and
//! the ranges as `START-END,…` or `-`.
//!
//! Two kinds of a bad end are told apart. Without its line break, the last line is one that was
//! being written at a crash: nobody was told that it is on disk, so it is dropped. With it, the
//! line was whole once, and the file is damaged.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::durable;
use super::properties::Damage;
use crate::segment::range::{Queue, Range};
use crate::segment::tag::BizTag;

/// Its name in the state directory.
pub const FILE: &str = "segments.journal";

const HEADER: &str = "leafd segments 1\n";

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
    pub left: Queue,
}

/// The journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
    tags: HashMap<BizTag, TagRecord>,
    /// After a failed write nobody knows what the file holds: write it anew.
    suspect: bool,
}

/// What opening finds.
#[derive(Debug)]
pub enum Opened {
    /// All of it is as it was written.
    Whole(Journal),
    /// Some of it is not.
    Damaged {
        /// What was noticed first.
        damage: Damage,
        /// The highest ends, from the lines that are whole: they can only make leafd stricter.
        floors: HashMap<BizTag, u64>,
    },
}

impl Journal {
    /// Makes a journal with these tags, in the place of another if need be.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, tags: HashMap<BizTag, TagRecord>) -> io::Result<Self> {
        let text = whole_text(&tags);
        durable::replace(path, text.as_bytes())?;
        let lines = tags.len();
        Self::from_content(path, tags, lines, text.len())
    }

    /// Opens a journal.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Opened> {
        let content = std::fs::read(path)?;
        match parse(&content) {
            Ok(Parsed { tags, lines, len }) => {
                Self::from_content(path, tags, lines, len).map(Opened::Whole)
            }
            Err(damage) => Ok(Opened::Damaged { damage, floors: salvage(&content) }),
        }
    }

    fn from_content(
        path: &Path,
        tags: HashMap<BizTag, TagRecord>,
        lines: usize,
        len: usize,
    ) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        // Drops a line that was being written at a crash.
        file.set_len(len as u64)?;
        file.sync_all()?;
        Ok(Self { path: path.to_owned(), file, lines, tags, suspect: false })
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
        let mut text = String::new();
        for (tag, record) in &records {
            push_line(&mut text, tag, record);
        }
        self.lines += records.len();
        self.tags.extend(records);
        if self.suspect || self.lines > 2 * self.tags.len() + SLACK {
            return self.rewrite();
        }
        self.suspect = true;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.suspect = false;
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.suspect = true;
        durable::replace(&self.path, whole_text(&self.tags).as_bytes())?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.lines = self.tags.len();
        self.suspect = false;
        Ok(())
    }
}

fn whole_text(tags: &HashMap<BizTag, TagRecord>) -> String {
    let mut text = String::from(HEADER);
    for (tag, record) in tags {
        push_line(&mut text, tag, record);
    }
    text
}

struct Parsed {
    tags: HashMap<BizTag, TagRecord>,
    lines: usize,
    /// Bytes up to the end of the last whole line.
    len: usize,
}

fn parse(content: &[u8]) -> Result<Parsed, Damage> {
    let len = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole = content.get(..len).unwrap_or_default();
    let text = std::str::from_utf8(whole)
        .map_err(|error| Damage::Content(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    let body = text
        .strip_prefix(HEADER)
        .ok_or_else(|| Damage::Content(format!("it does not begin with {:?}", HEADER.trim())))?;
    let mut tags = HashMap::new();
    let mut lines = 0;
    for line in body.lines() {
        lines += 1;
        let (tag, record) = parse_line(line)
            .ok_or_else(|| Damage::Content(format!("line {} is damaged", lines + 1)))?;
        tags.insert(tag, record);
    }
    Ok(Parsed { tags, lines, len })
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
    let _ = writeln!(out, "{:08x} {line}", crc32fast::hash(line.as_bytes()));
}

fn parse_line(line: &str) -> Option<(BizTag, TagRecord)> {
    let (sum, rest) = line.split_once(' ')?;
    if format!("{:08x}", crc32fast::hash(rest.as_bytes())) != sum {
        return None;
    }
    let mut fields = rest.split(' ');
    let tag = BizTag::new(&decode_tag(fields.next()?)?).ok()?;
    let floor = fields.next()?.parse().ok()?;
    let used_s = fields.next()?.parse().ok()?;
    let left = match fields.next()? {
        "-" => Queue::default(),
        ranges => ranges.split(',').map(parse_range).collect::<Option<Queue>>()?,
    };
    fields.next().is_none().then_some((tag, TagRecord { floor, used_s, left }))
}

fn parse_range(text: &str) -> Option<Range> {
    let (start, end) = text.split_once('-')?;
    Range::new(start.parse().ok()?, end.parse().ok()?)
}

fn encode_tag(tag: &str, out: &mut String) {
    for byte in tag.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
}

fn decode_tag(text: &str) -> Option<String> {
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

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    fn record(floor: u64, left: &[(u64, u64)]) -> TagRecord {
        let left = left.iter().map(|&(start, end)| Range::new(start, end).unwrap()).collect();
        TagRecord { floor, used_s: 1, left }
    }

    fn journal(dir: &tempfile::TempDir, records: &[(&str, TagRecord)]) -> PathBuf {
        let path = dir.path().join(FILE);
        let mut journal = Journal::create(&path, HashMap::new()).unwrap();
        for (name, record) in records {
            journal.append(vec![(tag(name), record.clone())]).unwrap();
        }
        path
    }

    fn whole(path: &Path) -> Journal {
        match Journal::open(path).unwrap() {
            Opened::Whole(journal) => journal,
            Opened::Damaged { damage, .. } => panic!("{damage}"),
        }
    }

    fn reopened(path: &Path) -> HashMap<BizTag, TagRecord> {
        whole(path).tags().clone()
    }

    #[test]
    fn the_last_line_of_a_tag_counts() {
        let dir = tempfile::tempdir().unwrap();
        let odd = "a b%\u{e9}🦀/'\"";
        let path = journal(
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
    fn a_line_that_was_being_written_at_a_crash_is_dropped_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
        let before = std::fs::read(&path).unwrap();
        let mut journal = whole(&path);
        journal.append(vec![(tag("a"), record(2001, &[(101, 2001)]))]).unwrap();
        let after = std::fs::read(&path).unwrap();
        for cut in before.len()..after.len() {
            std::fs::write(&path, &after[..cut]).unwrap();
            assert_eq!(reopened(&path)[&tag("a")], record(2001, &[(1, 2001)]), "cut at {cut}");
            // And what comes next does not stick to the rest of it.
            let mut journal = whole(&path);
            journal.append(vec![(tag("a"), record(2001, &[(201, 2001)]))]).unwrap();
            assert_eq!(reopened(&path)[&tag("a")], record(2001, &[(201, 2001)]));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_the_highest_ends_of_whole_lines_are_salvaged() {
        let dir = tempfile::tempdir().unwrap();
        let path =
            journal(&dir, &[("a", record(2001, &[(1, 2001)])), ("b", record(7001, &[(5, 7001)]))]);
        let good = std::fs::read(&path).unwrap();
        let second_line =
            good.len() - 1 - good.iter().rev().skip(1).position(|b| *b == b'\n').unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                std::fs::write(&path, &bad).unwrap();
                match Journal::open(&path).unwrap() {
                    Opened::Damaged { floors, .. } => {
                        assert!(floors.values().all(|floor| [2001, 7001].contains(floor)));
                        assert!(at <= second_line || floors[&tag("a")] == 2001);
                    }
                    // The last line break is gone, so this is the crash during a write.
                    Opened::Whole(journal) => {
                        assert_eq!(at, good.len() - 1, "bit {bit} of byte {at} went unnoticed");
                        assert_eq!(journal.tags().len(), 1);
                    }
                }
            }
        }
    }

    #[test]
    fn an_outdated_file_is_written_anew_and_says_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = journal(&dir, &[("b", record(9, &[(3, 9)]))]);
        let mut journal = whole(&path);
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
        let path = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
        let mut journal = whole(&path);
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
            let mut file = HEADER.as_bytes().to_vec();
            file.extend(&content);
            let _ = (parse(&content), parse(&file));
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
