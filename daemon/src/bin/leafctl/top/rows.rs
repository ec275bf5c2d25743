//! The table of the tags. No IO.

use super::glyphs::{bar, sparkline};
use super::known::TagTrack;
use super::rates::limit;
use crate::output::{grouped, harmless};
use crate::screen::{Line, Tone};
use crate::table::{Align, Fit, TextTable};
use crate::tag;

/// Columns of the widest bar.
const WIDEST: usize = 20;

/// The heading and a line for each tag: with `columns`, what fits; without, all of it, and numbers
/// instead of bars.
pub(super) fn tag_lines(
    tags: &[&TagTrack],
    columns: Option<usize>,
    store_error: &str,
) -> Vec<Line> {
    let mut table = TextTable::that_fits([
        (
            "TAG",
            Align::Left,
            Fit::Cut(if columns.is_some_and(|columns| columns < 60) { 8 } else { 16 }),
        ),
        ("RATE/S", Align::Right, Fit::Keep),
        (if columns.is_some() { "TREND" } else { "ISSUED" }, Align::Right, Fit::Drop(6)),
        ("LEFT", Align::Left, Fit::Drop(2)),
        ("NEXT", Align::Left, Fit::Drop(1)),
        ("LASTS", Align::Right, Fit::Keep),
        ("LIMIT", Align::Right, Fit::Drop(5)),
        ("WAITING", Align::Right, Fit::Drop(4)),
        ("REMAINING", Align::Right, Fit::Drop(7)),
        ("STEP", Align::Right, Fit::Drop(8)),
        ("ERROR", Align::Left, Fit::Cut(12)),
    ]);
    // A share of the window; the whole of it is for what fits beside the bars.
    let width = columns.map(|columns| (columns / 10).clamp(4, WIDEST));
    for track in tags {
        let tag = &track.status;
        let (current, next) = ranges(track, width);
        table.row([
            harmless(&tag.tag),
            track.rate().map_or_else(|| "-".to_owned(), |rate| rate.to_string()),
            width.map_or_else(
                || grouped(tag.issued),
                |width| sparkline(track.issued.history(), width),
            ),
            current,
            next,
            tag::lasts(tag),
            limit(tag, track.rate()),
            grouped(tag.waiting),
            grouped(tag.remaining),
            grouped(tag.step),
            tag::error(tag, store_error),
        ]);
    }
    let tones = std::iter::once(Tone::Heading).chain(tags.iter().map(|t| tag::tone(&t.status)));
    let lines = table.lines(columns).into_iter().zip(tones);
    lines.map(|(text, tone)| Line { text, tone }).collect()
}

/// What is left of the current range, and of the next.
fn ranges(track: &TagTrack, width: Option<usize>) -> (String, String) {
    let tag = &track.status;
    let left = tag.current.map_or((0, 1), |range| {
        let is_in = (range.start..range.end).contains(&tag.position);
        let left = if is_in { range.end.saturating_sub(tag.position) } else { 0 };
        (left, range.end.saturating_sub(range.start))
    });
    let next = (u64::from(tag.next.is_some()), 1);
    let shown = |(part, whole): (u64, u64)| match width {
        Some(width) => bar(part, whole, width),
        None => format!("{} %", u128::from(part) * 100 / u128::from(whole.max(1))),
    };
    (shown(left), shown(next))
}

#[cfg(test)]
mod tests {
    use super::super::rates::CountRate;
    use super::*;
    use crate::tag::tests::tag as status;
    use crate::text::width;
    use leaf_client::wire::TagStatus;
    use std::time::Duration;

    fn track(name: &str) -> TagTrack {
        let mut issued = CountRate::default();
        for second in 0..10 {
            issued.note(Duration::from_secs(second), second * 12_345);
        }
        TagTrack { status: TagStatus { waiting: 3, ..status(name) }, issued }
    }

    fn lines(columns: Option<usize>, error: &str) -> Vec<String> {
        let mut track = track("orders");
        track.status.lease_error = error.to_owned();
        let lines = tag_lines(&[&track], columns, "the disk is full");
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_wide_window_has_all_and_a_narrow_one_what_matters() {
        let wide = lines(Some(200), "");
        assert!(wide[0].ends_with("STEP"), "{wide:#?}");
        assert!(wide[1].contains("  ████████████████████  ████████████████████  "), "{wide:#?}");
        let usual = lines(Some(80), "");
        for part in ["orders", " 12,345 ", "████████  ████████", " 1 min 30 s ", "int32 in 2 d"]
        {
            assert!(usual[1].contains(part), "{part}: {usual:#?}");
        }
        for columns in [40, 80, 200] {
            for error in ["", "the disk is full", "302 StoreUnavailable: no route to the database"]
            {
                let lines = lines(Some(columns), error);
                assert!(lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
                assert!(lines[0].contains("RATE/S") && lines[0].contains("LASTS"), "{lines:#?}");
                assert_eq!(lines[0].contains("ERROR"), !error.is_empty(), "{lines:#?}");
                let has_bars = lines[1].contains("████  ████");
                assert!(has_bars || columns == 40 && !error.is_empty(), "{lines:#?}");
            }
        }
        assert!(lines(Some(80), "the disk is full")[1].ends_with("the store fails"));
    }

    #[test]
    fn a_program_gets_shares_in_numbers() {
        let plain = lines(None, "");
        assert!(plain[1].contains("  95 %  100 %  "), "{plain:#?}");
        assert!(plain[1].is_ascii());
    }

    #[test]
    fn a_drained_tag_has_empty_bars() {
        let mut track = track("orders");
        track.status.position = 0;
        track.status.next = None;
        assert_eq!(ranges(&track, Some(4)), ("░░░░".to_owned(), "░░░░".to_owned()));
        track.status.current = None;
        assert_eq!(ranges(&track, None), ("0 %".to_owned(), "0 %".to_owned()));
    }
}
