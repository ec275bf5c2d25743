use proptest::prelude::*;

use super::replay::salvage;
use super::*;
use crate::ids::Range;
use crate::state::line::push_checked;
use crate::state::mark::FileMark;

const HEADER: JournalHeader = JournalHeader { generation: 7, base: 5 };

fn tag(name: &str) -> BizTag {
    BizTag::new(name).unwrap()
}

fn record(floor: u64, left: &[(u64, u64)]) -> TagRecord {
    let left = left.iter().map(|&(start, end)| Range::new(start, end).unwrap()).collect();
    TagRecord { floor, used_s: 1, left }
}

fn journal(dir: &tempfile::TempDir, records: &[(&str, TagRecord)]) -> (SegmentJournal, PathBuf) {
    let path = dir.path().join(FILE);
    let mut journal =
        SegmentJournal::create(&path, HEADER, HashMap::new(), RetiredDays::default()).unwrap();
    for (name, record) in records {
        journal.append(vec![(tag(name), record.clone())]).unwrap();
    }
    (journal, path)
}

fn reopened(path: &Path) -> HashMap<BizTag, TagRecord> {
    match read(&std::fs::read(path).unwrap()) {
        JournalReading::Whole { header, file, tags, cut_off, .. } => {
            assert_eq!((header, cut_off), (HEADER, None));
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
fn no_record_lowers_a_high_water_mark_not_even_the_last_one_before_the_end() {
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
fn a_cut_off_line_drops_the_ranges_it_could_have_changed_and_keeps_the_highest_end() {
    let dir = tempfile::tempdir().unwrap();
    let (content, before) = given_out(&dir);
    for cut in before + 1..content.len() {
        let JournalReading::Whole { tags, cut_off, .. } = read(&content[..cut]) else { panic!() };
        assert!(cut_off.is_some(), "cut at {cut}");
        let a = &tags[&tag("a")];
        assert_eq!(a.floor, 2001);
        // Never what the line before it said: those may have been given out.
        assert!(a.left.total() == 0 || a.left.position() == Some(101), "cut at {cut}");
        let b = tags[&tag("b")].left.total();
        assert!(b == 6 || cut < before + 10, "only when the tag cannot be read: {cut}");
    }
}

#[test]
fn a_cut_off_line_of_a_new_tag_drops_only_ranges_of_tags_it_could_name() {
    let dir = tempfile::tempdir().unwrap();
    let known = ["alpha", "beta", "be"].map(|name| (name, record(9, &[(3, 9)])));
    let (mut journal, path) = journal(&dir, &known);
    let before = std::fs::read(&path).unwrap().len();
    journal.append(vec![(tag("beyond"), record(2001, &[(101, 2001)]))]).unwrap();
    let content = std::fs::read(&path).unwrap();
    let left = |cut: usize| {
        let JournalReading::Whole { tags, cut_off, .. } = read(&content[..cut]) else { panic!() };
        let cut_off = cut_off.unwrap();
        assert!(cut_off.forgets_a_tag || tags.contains_key(&tag("beyond")), "cut at {cut}");
        let mut left: Vec<_> = tags.iter().filter(|(_, record)| record.left.total() > 0).collect();
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
fn an_end_that_leafd_did_not_write_drops_the_ranges_of_all_tags() {
    let dir = tempfile::tempdir().unwrap();
    let (_, path) = journal(&dir, &[("a", record(9, &[(3, 9)]))]);
    let content = std::fs::read(&path).unwrap();
    for end in ["\0\0\0\0\0\0\0\0\0\0\0\0", "01234567 \0\0", "0123456z b 5", "01234567 b\0"] {
        let content = [&content, end.as_bytes()].concat();
        let JournalReading::Whole { tags, cut_off, .. } = read(&content) else { panic!() };
        assert_eq!((tags[&tag("a")].left.total(), tags[&tag("a")].floor), (0, 9), "{end:?}");
        assert!(cut_off.unwrap().forgets_a_tag);
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
                JournalReading::Whole { tags, cut_off, .. } => {
                    assert_eq!(at, good.len() - 1, "bit {bit} of byte {at} went unnoticed");
                    assert!(cut_off.is_some());
                    assert_ne!(tags[&tag("a")].left.position(), Some(1));
                }
            }
        }
    }
}

#[test]
fn a_tag_leaves_the_file_together_with_what_is_left_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let past = "a b-20200101";
    let (mut journal, path) =
        journal(&dir, &[(past, record(900, &[(1, 900)])), ("b", record(7, &[]))]);
    let left = RetiredSeries { through: "20200101".parse().unwrap(), floor: 700 };
    journal.retire(&tag(past), left);
    journal.retire(&tag("a b-20191231"), RetiredSeries { floor: 800, ..left });
    // Until the file is written as a whole, it has the tag.
    journal.append(vec![(tag("b"), record(8, &[]))]).unwrap();
    assert_eq!(reopened(&path)[&tag(past)].floor, 900);
    journal.finish(Vec::new()).unwrap();
    let whole = || {
        let content = std::fs::read(&path).unwrap();
        let JournalReading::Whole { tags, retired, cut_off: None, .. } = read(&content) else {
            panic!()
        };
        (tags, retired)
    };
    let (tags, retired) = whole();
    assert_eq!((retired.floor_of(past), retired.floor_of("a b-20200102"), tags.len()), (900, 0, 1));
    // A tag that comes back has a line again, beside that of its series.
    journal.append(vec![(tag(past), record(1900, &[(950, 1900)]))]).unwrap();
    let (tags, again) = whole();
    assert_eq!((&tags[&tag(past)], again), (&record(1900, &[(950, 1900)]), retired));
    // A line of a series that is cut off is not taken for one of a tag of its name.
    let text = std::fs::read_to_string(&path).unwrap();
    let series = text.lines().nth(1).unwrap();
    assert!(series.ends_with(" retired"), "{text}");
    let end = text.find(series).unwrap() + series.len();
    for cut in [end, end - 1, end - 8] {
        let JournalReading::Whole { tags, retired, cut_off: Some(line), .. } =
            read(&text.as_bytes()[..cut])
        else {
            panic!("{cut}")
        };
        let is_known = retired.floor_of("a b-20190101") == 900;
        assert_eq!((tags.len(), is_known), (0, !line.forgets_a_tag), "{cut}");
        assert_eq!(is_known, cut == end);
    }
    // Whatever else is damaged, the line of the series is believed.
    let mut content = std::fs::read(&path).unwrap();
    content.extend_from_slice(b"nonsense\n");
    let reading = read(&content);
    assert!(matches!(reading, JournalReading::Damaged { .. }));
    let (floors, retired) = reading.into_floors();
    assert_eq!((retired.floor_of("a b-20190101"), floors[&tag(past)]), (900, 1900));
}

#[test]
fn a_journal_of_an_older_version_is_read_and_names_no_file() {
    let mut text = String::new();
    push_checked(&mut text, "leafd-segments 1 7");
    push_line(&mut text, &tag("a"), &record(9, &[(3, 9)]));
    let JournalReading::Whole { header, file, tags, .. } = read(text.as_bytes()) else { panic!() };
    assert_eq!((header, file), (JournalHeader { base: 0, ..HEADER }, None));
    assert_eq!(tags[&tag("a")], record(9, &[(3, 9)]));
    for bad in ["leafd-segments 1 7 x 0", "leafd-segments 1 7 5@6 x", "leafd-segments 1 7 5 6 7"] {
        let mut text = String::new();
        push_checked(&mut text, bad);
        assert!(matches!(read(text.as_bytes()), JournalReading::Damaged { .. }), "{bad}");
    }
}

#[test]
fn the_last_record_before_the_end_goes_to_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, path) = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
    let copy = std::fs::read(&path).unwrap();
    journal.finish(vec![(tag("a"), record(2001, &[(301, 2001)]))]).unwrap();
    assert_eq!(reopened(&path)[&tag("a")].left.position(), Some(301));
    // Written over the file, so that inode and time are those of the file as it is.
    std::fs::write(&path, copy).unwrap();
    let JournalReading::Whole { file, .. } = read(&std::fs::read(&path).unwrap()) else { panic!() };
    assert!(file.unwrap().differs_from(FileMark::of(&std::fs::metadata(&path).unwrap())));
}

#[test]
fn a_removed_journal_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, path) = journal(&dir, &[("a", record(2001, &[(1, 2001)]))]);
    std::fs::remove_file(&path).unwrap();
    journal.append(vec![(tag("b"), record(9, &[(3, 9)]))]).unwrap();
    assert_eq!(reopened(&path).len(), 2);
}

#[test]
fn a_compacted_journal_says_the_same() {
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
fn after_a_failed_write_the_whole_file_is_written_again() {
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
    fn no_content_makes_the_reader_panic(content in any::<Vec<u8>>()) {
        let mut file = whole_text(HEADER, FileMark::read("7@8").unwrap(), &HashMap::new(), &RetiredDays::default()).into_bytes();
        file.extend(&content);
        let _ = (read(&content), read(&file));
        prop_assert!(salvage(&content).0.is_empty());
    }
}
