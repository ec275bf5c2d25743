//! Lays the status out: for a terminal, what fits, with the summary always in sight; for a program,
//! everything, independent of any terminal.

use leaf_client::wire::TagStatus;
use leafd::cli::leafctl::StatusArgs;

use super::gather::Snapshot;
use super::summary::{Entry, entries};
use crate::output::{grouped, harmless};
use crate::screen::{Line, Screen, Tone};
use crate::tag;
use crate::text::wrapped;

/// Columns for the labels of the summary.
const LABEL: usize = 11;

/// Fewer columns than this are no room to break lines in.
const LEAST_TEXT: usize = 10;

/// How many tags to read where only the most urgent are shown: more would make a fleet's worth of
/// tags slow to look at.
pub(crate) const MOST_READ: usize = 10_000;

/// The lines for a terminal that has `screen.rows` rows to spare, or for a program.
pub(super) fn page(snapshot: &Snapshot, args: &StatusArgs, screen: Option<&Screen>) -> Vec<Line> {
    let summary = entries(&snapshot.status);
    let mut lines: Vec<_> = summary.into_iter().flat_map(|entry| shown(entry, screen)).collect();
    match &snapshot.tags {
        Ok(tags) if tags.is_empty() => {}
        Ok(tags) => tag_lines(snapshot, tags, args, screen, &mut lines),
        Err(why) => {
            lines.push(Line::plain(""));
            let text = format!("The tags are not shown: {}", harmless(why));
            lines.extend(paragraph(&text, Tone::Plain, screen));
        }
    }
    lines
}

fn shown(Entry { label, text, tone }: Entry, screen: Option<&Screen>) -> Vec<Line> {
    let texts = match screen {
        None => vec![text],
        Some(screen) => wrapped(&text, screen.columns.saturating_sub(LABEL).max(LEAST_TEXT)),
    };
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let lines = labels.zip(texts);
    lines.map(|(label, text)| Line { text: format!("{label:<LABEL$}{text}"), tone }).collect()
}

/// A text over the whole width.
pub(super) fn paragraph(text: &str, tone: Tone, screen: Option<&Screen>) -> Vec<Line> {
    let texts = match screen {
        None => vec![text.to_owned()],
        Some(screen) => wrapped(text, screen.columns.max(LEAST_TEXT)),
    };
    texts.into_iter().map(|text| Line { text, tone }).collect()
}

fn tag_lines(
    snapshot: &Snapshot,
    tags: &[TagStatus],
    args: &StatusArgs,
    screen: Option<&Screen>,
    to: &mut Vec<Line>,
) {
    to.push(Line::plain(""));
    let store_error = &snapshot.status.segments.store_error;
    let Some(screen) = screen else {
        to.extend(tag::range_lines(tags, None, store_error));
        return;
    };
    let mut tags = tags.to_vec();
    tag::most_urgent_first(&mut tags);
    let columns = (!args.wide).then_some(screen.columns);
    if args.all {
        to.extend(tag::range_lines(&tags, columns, store_error));
        return;
    }
    let known = if tags.len() < MOST_READ { 0 } else { snapshot.status.segments.tags };
    let known = usize::try_from(known).unwrap_or(usize::MAX).max(tags.len());
    let free = screen.rows.saturating_sub(to.len());
    // No more than these can fit, and the widths of the others must not count.
    let candidates = tags.get(..free.max(1)).unwrap_or(&tags);
    let mut lines = tag::range_lines(candidates, columns, store_error);
    let all_fit = candidates.len() == known && rows(screen, &lines) <= free;
    // The heading, the first tag, and the line that counts the others.
    while !all_fit && lines.len() > 2 && rows(screen, &lines) + 1 > free {
        lines.pop();
    }
    let more = known.saturating_sub(lines.len().saturating_sub(1));
    to.extend(lines);
    if more > 0 {
        to.push(Line::plain(format!("and {} more: --all", grouped(more as u64))));
    }
}

fn rows(screen: &Screen, lines: &[Line]) -> usize {
    lines.iter().map(|line| screen.rows_of(&line.text)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arguments, snapshot};
    use super::*;
    use crate::text::width;
    use leaf_client::wire::SnowflakeState;

    fn screen(columns: usize, rows: usize) -> Screen {
        Screen { columns, rows, colours: false, redraws: true }
    }

    fn many(count: usize) -> Snapshot {
        let mut snapshot = snapshot(SnowflakeState::Serving);
        let mut tags: Vec<_> =
            (0..count).map(|number| tag::tests::tag(&format!("tag-{number:05}"))).collect();
        if let Some(last) = tags.last_mut() {
            last.waiting = 1;
        }
        snapshot.status.segments.tags = count as u64;
        snapshot.tags = Ok(tags);
        snapshot
    }

    fn texts(snapshot: &Snapshot, line: &[&str], screen: Option<Screen>) -> Vec<String> {
        let lines = page(snapshot, &arguments(line), screen.as_ref());
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn the_summary_and_the_most_urgent_tags_fit_every_terminal() {
        for count in [1, 2, 12, 13, 14, 15, 100, 12_345] {
            for (columns, rows) in [(80, 23), (200, 49), (60, 30)] {
                let texts = texts(&many(count), &[], Some(screen(columns, rows)));
                let all = texts.join("\n");
                assert!(texts.len() <= rows, "{count} tags in {rows} rows:\n{all}");
                assert!(texts.iter().all(|text| width(text) <= columns), "{all}");
                assert!(all.starts_with("leafd      0.1.0"), "{all}");
                let first = texts.iter().position(|text| text.starts_with("TAG")).unwrap() + 1;
                assert!(texts[first].starts_with(&format!("tag-{:05}", count - 1)), "{all}");
                let tags = texts.iter().filter(|text| text.starts_with("tag-")).count();
                let more = count - tags;
                let counted = format!("and {} more: --all", grouped(more as u64));
                assert_eq!(texts.last() == Some(&counted), more > 0, "{count}: {all}");
                assert!(more == 0 || texts.len() == rows, "it leaves rows unused:\n{all}");
            }
        }
    }

    #[test]
    fn a_terminal_of_few_rows_still_shows_the_most_urgent_tag() {
        let texts = texts(&many(5), &[], Some(screen(80, 4)));
        assert!(texts.last().is_some_and(|text| text == "and 4 more: --all"), "{texts:?}");
    }

    #[test]
    fn all_shows_every_tag_and_wide_every_column() {
        let all = texts(&many(100), &["--all"], Some(screen(80, 23)));
        assert_eq!(all.iter().filter(|text| text.starts_with("tag-")).count(), 100);
        let wide = texts(&many(100), &["--wide"], Some(screen(80, 23)));
        let rows: usize = wide.iter().map(|text| screen(80, 23).rows_of(text)).sum();
        assert!(rows <= 23, "{wide:?}");
        assert!(
            wide.iter().any(|text| text.ends_with("CURRENT    NEXT          ERROR")),
            "{wide:?}"
        );
    }

    #[test]
    fn a_program_gets_every_tag_in_byte_order_one_line_each() {
        let texts = texts(&many(300), &[], None);
        let tags: Vec<_> = texts.iter().filter(|text| text.starts_with("tag-")).collect();
        assert!(tags.len() == 300 && tags.is_sorted());
        assert!(texts[0].ends_with("requests 1,234,567, state in /var/lib/leafd"), "{}", texts[0]);
    }

    #[test]
    fn long_texts_go_on_below_their_beginning() {
        let reason = "the clock of this host is not right, ".repeat(5);
        let snapshot = snapshot(SnowflakeState::Refused { reason });
        let texts = texts(&snapshot, &[], Some(screen(80, 50)));
        let at = texts.iter().position(|text| text.starts_with("snowflake  refused: ")).unwrap();
        assert!(texts[at + 1].starts_with("           ") && texts[at + 1].len() <= 80, "{texts:?}");
    }
}
