//! Forecasts as text: a line for each tag in a table that fits the terminal, or everything about one tag.

use leaf_client::wire::{LimitForecast, TagForecast, TagGrowth};
use leafd::duration::rough;
use leafd::rfc3339::rfc3339;

use super::gather::FirstTags;
use super::reach::{DOUBLE, INT32, INT64, Reach, first_ahead, name, per_second};
use crate::output::{grouped, harmless};
use crate::screen::{Line, Screen, Tone};
use crate::table::{Align, Fit, TextTable};
use crate::text::wrapped;

const DAY_MS: u64 = 86_400_000;
const YEAR_MS: u64 = 365 * DAY_MS;

/// What ends sooner is a warning, as in the alerts.
const SOON_MS: u64 = 30 * DAY_MS;

/// Why there is no rate.
const NO_RATE: &str = "leafd knows a rate once it has seen a tag for ten minutes, by a clock that was \
                       not set back, and of the 5,000 tags with the highest IDs alone";

/// All tags: a table, and below it what concerns all of them.
pub(super) fn of_all(found: &FirstTags, screen: Option<&Screen>) -> Vec<Line> {
    let mut lines = if found.tags.is_empty() {
        vec![Line::plain("This leafd has used no tags.")]
    } else {
        table(found, screen.map(|screen| screen.columns))
    };
    if found.left_out > 0 {
        let count = grouped(found.left_out as u64);
        lines.push(Line::plain(format!("and {count} more, without a date")));
    }
    lines.push(Line::plain(""));
    let mut notes = vec![layout(found)];
    if found.tags.iter().any(|tag| tag.growth.is_none()) {
        notes.push(Line::plain(format!("unknown: {NO_RATE}.")));
    }
    for Line { text, tone } in notes {
        let texts = match screen {
            Some(screen) => wrapped(&text, screen.columns.max(20)),
            None => vec![text],
        };
        lines.extend(texts.into_iter().map(|text| Line { text, tone }));
    }
    lines
}

fn table(found: &FirstTags, columns: Option<usize>) -> Vec<Line> {
    let mut table = TextTable::that_fits([
        ("TAG", Align::Left, Fit::Cut(16)),
        ("RATE/S", Align::Right, Fit::Keep),
        ("OVER", Align::Right, Fit::Drop(4)),
        ("MAX_ID", Align::Right, Fit::Drop(3)),
        ("INT32", Align::Left, Fit::Keep),
        ("2^53", Align::Left, Fit::Drop(1)),
        ("INT64", Align::Left, Fit::Drop(2)),
    ]);
    for tag in &found.tags {
        let [int32, double, int64] = [INT32, DOUBLE, INT64].map(|limit| {
            let known = tag.limits.iter().find(|known| known.limit == limit);
            known.map_or_else(|| "-".to_owned(), |known| cell(tag, *known, found.now_ms))
        });
        table.row([
            harmless(&tag.tag),
            tag.growth.map_or_else(|| "-".to_owned(), rate),
            tag.growth.map_or_else(|| "-".to_owned(), over),
            tag.max_id.to_string(),
            int32,
            double,
            int64,
        ]);
    }
    let tones = found.tags.iter().map(|tag| match first_ahead(tag) {
        Some(at_ms) if at_ms.saturating_sub(found.now_ms) < SOON_MS => Tone::Warning,
        _ => Tone::Plain,
    });
    let tones = std::iter::once(Tone::Heading).chain(tones);
    let lines = table.lines(columns).into_iter().zip(tones);
    lines.map(|(text, tone)| Line { text, tone }).collect()
}

/// Everything about one tag, one field per line.
pub(super) fn of_tag(tag: &TagForecast, found: &FirstTags) -> Vec<Line> {
    let mut lines = vec![
        Line::plain(format!("tag     {}", harmless(&tag.tag))),
        Line::plain(format!("max_id  {}", tag.max_id)),
        Line::plain(match tag.growth {
            Some(growth) => format!("rate    {} IDs/s, over {}", rate(growth), over(growth)),
            None => format!("rate    unknown: {NO_RATE}"),
        }),
    ];
    lines.extend(tag.limits.iter().map(|limit| {
        let (text, tone) = match Reach::of(tag, *limit) {
            Reach::At(at_ms) => {
                let left_ms = at_ms.saturating_sub(found.now_ms);
                let tone = if left_ms < SOON_MS { Tone::Warning } else { Tone::Plain };
                (format!("{}, in {}", rfc3339(at_ms), distance(left_ms)), tone)
            }
            other => (words(other).to_owned(), Tone::Plain),
        };
        Line { text: format!("{:<7} {text}", name(limit.limit)), tone }
    }));
    let Line { text, tone } = layout(found);
    lines.push(Line { text: format!("layout  {text}"), tone });
    lines
}

fn cell(tag: &TagForecast, limit: LimitForecast, now_ms: u64) -> String {
    match Reach::of(tag, limit) {
        // A date says little of what ends tomorrow.
        Reach::At(at_ms) if at_ms.saturating_sub(now_ms) < 2 * DAY_MS => {
            format!("in {}", rough(at_ms.saturating_sub(now_ms)))
        }
        Reach::At(at_ms) => date(at_ms),
        other => words(other).to_owned(),
    }
}

const fn words(reach: Reach) -> &'static str {
    match reach {
        Reach::Passed => "passed",
        Reach::Unknown => "unknown",
        Reach::At(_) | Reach::NotAtThisRate => "not at this rate",
    }
}

/// When the layout ends. Its tone is that of the alerts.
fn layout(found: &FirstTags) -> Line {
    let Some(end_ms) = found.layout_end_ms else {
        return Line::plain("no snowflake IDs (snowflake.enabled)");
    };
    let day = date(end_ms);
    let (text, tone) = match end_ms.checked_sub(found.now_ms) {
        None => (format!("snowflake IDs ended on {day}"), Tone::Failure),
        Some(left_ms) => {
            let tone = match left_ms {
                ..SOON_MS => Tone::Failure,
                SOON_MS..YEAR_MS => Tone::Warning,
                _ => Tone::Plain,
            };
            (format!("snowflake IDs end on {day}, in {}", distance(left_ms)), tone)
        }
    };
    Line { text, tone }
}

fn date(at_ms: u64) -> String {
    let moment = rfc3339(at_ms);
    moment.split_once('T').map_or(moment.as_str(), |(date, _)| date).to_owned()
}

/// A time in one or two units, years included.
fn distance(ms: u64) -> String {
    match ms {
        ..DAY_MS => rough(ms),
        DAY_MS..YEAR_MS => format!("{} d", ms / DAY_MS),
        _ => format!("{} y", grouped(ms / YEAR_MS)),
    }
}

fn over(growth: TagGrowth) -> String {
    rough(growth.seconds.saturating_mul(1000))
}

/// The rate in three digits or more. One ID a day is 0.00001 a second.
fn rate(growth: TagGrowth) -> String {
    match per_second(growth) {
        0.0 => "0".to_owned(),
        ..0.001 => "<0.001".to_owned(),
        slow @ ..1.0 => format!("{slow:.3}"),
        some @ ..100.0 => format!("{some:.1}"),
        many => grouped(many.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW_MS, growing, page};
    use super::*;
    use crate::text::width;

    const FOUND_END_MS: u64 = 3_487_858_230_209;

    fn found(tags: Vec<TagForecast>) -> FirstTags {
        FirstTags { layout_end_ms: Some(FOUND_END_MS), ..FirstTags::of(page(tags)) }
    }

    fn some_tags() -> FirstTags {
        let mut passed = growing("passed", None, Some(NOW_MS + 400 * DAY_MS));
        passed.max_id = INT32;
        let silent = TagForecast { growth: None, max_id: 7, ..growing("sile\x1bnt", None, None) };
        found(vec![
            growing("next-month", Some(NOW_MS + 40 * DAY_MS), None),
            passed,
            silent,
            growing("tonight", Some(NOW_MS + 3 * 3_600_000), None),
        ])
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn the_table_has_a_line_for_each_tag_in_words() {
        let found = some_tags();
        let lines = of_all(&found, None);
        let expected = [
            "TAG            RATE/S       OVER      MAX_ID  INT32             2^53              INT64",
            "tonight           2.5  24 h 0 min        1000  in 3 h 0 min      not at this rate  not at this rate",
            "next-month        2.5  24 h 0 min        1000  2026-02-10        not at this rate  not at this rate",
            "passed            2.5  24 h 0 min  2147483648  passed            2027-02-05        not at this rate",
            "sile\\u{1b}nt       -           -           7  unknown           unknown           unknown",
        ];
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: Vec<_> = texts(&lines).iter().map(|line| squeezed(line)).collect();
        assert!(shown.iter().zip(expected).all(|(line, row)| *line == squeezed(row)), "{shown:#?}");
        assert_eq!(lines[6].text, "snowflake IDs end on 2080-07-10, in 54 y");
        assert!(lines[7].text.starts_with("unknown: leafd knows a rate once"), "{shown:#?}");
        let tones: Vec<_> = lines.iter().map(|line| line.tone).collect();
        assert_eq!(tones[..3], [Tone::Heading, Tone::Warning, Tone::Plain]);
    }

    #[test]
    fn the_table_fits_every_terminal_and_keeps_the_dates_of_80_columns() {
        let long = growing(&"订单".repeat(64), Some(NOW_MS + 40 * DAY_MS), None);
        let found = found(vec![long, growing("orders", None, None)]);
        for columns in [20, 40, 80, 120, 200] {
            let screen = Screen { columns, rows: 24, colours: false, redraws: true };
            for line in of_all(&found, Some(&screen)) {
                assert!(width(&line.text) <= columns, "{columns}: {}", line.text);
            }
        }
        let screen = Screen { columns: 80, rows: 24, colours: false, redraws: true };
        let heading = &of_all(&found, Some(&screen))[0].text;
        let shown: Vec<_> = heading.split_whitespace().collect();
        assert_eq!(shown, ["TAG", "RATE/S", "INT32", "2^53", "INT64"]);
    }

    #[test]
    fn one_tag_has_a_line_for_each_field() {
        let tag = growing("ord\x07ers", Some(NOW_MS + 3 * 3_600_000), Some(FOUND_END_MS));
        let found = found(vec![tag]);
        let lines = of_tag(&found.tags[0], &found);
        let expected = [
            "tag     ord\\u{7}ers",
            "max_id  1000",
            "rate    2.5 IDs/s, over 24 h 0 min",
            "int32   2026-01-01T03:00:00.000Z, in 3 h 0 min",
            "2^53    2080-07-10T17:30:30.209Z, in 54 y",
            "int64   not at this rate",
            "layout  snowflake IDs end on 2080-07-10, in 54 y",
        ];
        assert_eq!(texts(&lines), expected);
        assert_eq!((lines[3].tone, lines[4].tone), (Tone::Warning, Tone::Plain));
        let silent = TagForecast { growth: None, ..growing("t", None, None) };
        let lines = of_tag(&silent, &found);
        assert!(lines[2].text.starts_with("rate    unknown: leafd knows"), "{lines:?}");
        assert_eq!(lines[3].text, "int32   unknown");
    }

    #[test]
    fn the_layout_is_a_warning_in_its_last_year_a_failure_in_its_last_month_and_after() {
        let of = |layout_end_ms| layout(&FirstTags { layout_end_ms, ..found(Vec::new()) });
        for (end_ms, text, tone) in [
            (NOW_MS - 1, "snowflake IDs ended on 2025-12-31", Tone::Failure),
            (NOW_MS + DAY_MS, "snowflake IDs end on 2026-01-02, in 1 d", Tone::Failure),
            (NOW_MS + 40 * DAY_MS, "snowflake IDs end on 2026-02-10, in 40 d", Tone::Warning),
            (NOW_MS + YEAR_MS, "snowflake IDs end on 2027-01-01, in 1 y", Tone::Plain),
        ] {
            assert_eq!(of(Some(end_ms)), Line { text: text.to_owned(), tone });
        }
        assert!(of(None).text.starts_with("no snowflake IDs"));
        // Whatever a peer sends.
        assert!(of(Some(u64::MAX)).text.starts_with("snowflake IDs end on +"));
    }

    #[test]
    fn without_tags_and_with_too_many_the_text_says_so() {
        let lines = of_all(&found(Vec::new()), None);
        assert_eq!(lines[0].text, "This leafd has used no tags.");
        let many = FirstTags { left_out: 90_000, ..some_tags() };
        assert!(texts(&of_all(&many, None)).contains(&"and 90,000 more, without a date"));
    }

    #[test]
    fn rates_have_the_digits_that_matter() {
        let of = |ids, seconds| rate(TagGrowth { ids, seconds });
        assert_eq!(of(0, 600), "0");
        assert_eq!(of(1, 86_400), "<0.001");
        assert_eq!(of(86, 86_400), "<0.001");
        assert_eq!(of(4320, 86_400), "0.050");
        assert_eq!(of(3000, 1200), "2.5");
        assert_eq!(of(1_234_567_000, 1000), "1,234,567");
        assert_eq!(of(u64::MAX, 0), "18,446,744,073,709,551,615");
    }
}
