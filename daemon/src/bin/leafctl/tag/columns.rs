//! The tables of tags, one of `status` and one of `tag list`, with the same words. Counts have commas
//! between thousands; IDs have none, so that they can be pasted.

use std::cmp::{Ordering, Reverse};

use leaf_client::wire::TagStatus;

use super::view::{last_lease, lasts, position, span};
use crate::output::{grouped, harmless};
use crate::screen::{Line, Tone};
use crate::table::{Align, Fit, TextTable};

/// Below so many seconds, a tag is about to need the store.
const SOON_S: u64 = 60;

/// Sorts the tags that need an operator first to the front: those with requests that wait, then
/// those whose last lease failed, then those whose IDs in memory run out first.
pub(crate) fn most_urgent_first(tags: &mut [TagStatus]) {
    tags.sort_by(by_urgency);
}

/// The order of [`most_urgent_first`].
pub(crate) fn by_urgency(a: &TagStatus, b: &TagStatus) -> Ordering {
    let urgency = |tag: &TagStatus| {
        let fails = !tag.lease_error.is_empty();
        let lasts = tag.seconds_left.unwrap_or(u64::MAX);
        (Reverse(tag.waiting > 0), Reverse(fails), lasts, Reverse(tag.issued))
    };
    urgency(a).cmp(&urgency(b)).then_with(|| a.tag.cmp(&b.tag))
}

/// A table of what leafd holds of each tag in memory: the heading, and a line for each tag. With
/// `columns`, what fits; the error of the store, which `status` has said already, is not repeated.
pub(crate) fn range_lines(
    tags: &[TagStatus],
    columns: Option<usize>,
    store_error: &str,
) -> Vec<Line> {
    let mut table = TextTable::that_fits([
        ("TAG", Align::Left, Fit::Cut(16)),
        ("REMAINING", Align::Right, Fit::Keep),
        ("LASTS", Align::Right, Fit::Keep),
        ("WAITING", Align::Right, Fit::Drop(1)),
        ("POSITION", Align::Right, Fit::Drop(2)),
        ("NEXT STEP", Align::Right, Fit::Drop(3)),
        ("ROW STEP", Align::Right, Fit::Drop(8)),
        ("ISSUED", Align::Right, Fit::Drop(5)),
        ("LAST LEASE", Align::Left, Fit::Drop(4)),
        ("CURRENT", Align::Left, Fit::Drop(6)),
        ("NEXT", Align::Left, Fit::Drop(7)),
        ("ERROR", Align::Left, Fit::Cut(20)),
    ]);
    for tag in tags {
        table.row([
            harmless(&tag.tag),
            grouped(tag.remaining),
            lasts(tag),
            grouped(tag.waiting),
            position(tag),
            grouped(tag.step),
            grouped(tag.row_step),
            grouped(tag.issued),
            last_lease(tag),
            span(tag.current),
            span(tag.next),
            error(tag, if columns.is_some() { store_error } else { "" }),
        ]);
    }
    let tones = std::iter::once(Tone::Heading).chain(tags.iter().map(tone));
    let lines = table.lines(columns).into_iter().zip(tones);
    lines.map(|(text, tone)| Line { text, tone }).collect()
}

/// Why the last lease failed, in short if that is the error of the store, which is shown already.
pub(crate) fn error(tag: &TagStatus, store_error: &str) -> String {
    if !store_error.is_empty() && tag.lease_error == store_error {
        return "the store fails".to_owned();
    }
    harmless(&tag.lease_error)
}

/// The colour of a tag's line.
pub(crate) fn tone(tag: &TagStatus) -> Tone {
    let fails = !tag.lease_error.is_empty();
    match tag.seconds_left {
        _ if tag.waiting > 0 => Tone::Failure,
        Some(..SOON_S) if fails => Tone::Failure,
        _ if fails => Tone::Warning,
        _ => Tone::Plain,
    }
}

/// A table of what the store holds of each tag.
pub(super) fn row_lines(tags: &[TagStatus], columns: Option<usize>) -> Vec<String> {
    let mut table = TextTable::that_fits([
        ("TAG", Align::Left, Fit::Cut(16)),
        ("ROW STEP", Align::Right, Fit::Keep),
        ("MAX_ID", Align::Right, Fit::Keep),
        ("ISSUED", Align::Right, Fit::Keep),
        ("DESCRIPTION", Align::Left, Fit::Cut(16)),
    ]);
    for tag in tags {
        table.row([
            harmless(&tag.tag),
            grouped(tag.row_step),
            tag.max_id.to_string(),
            grouped(tag.issued),
            harmless(&tag.description),
        ]);
    }
    table.lines(columns)
}

#[cfg(test)]
mod tests {
    use super::super::tests::tag;
    use super::*;
    use crate::text::width;

    #[test]
    fn tags_that_wait_come_first_then_those_that_fail_then_those_that_run_out_first() {
        let mut tags = ["busy", "failing", "idle-b", "idle-a", "waiting", "soon"].map(tag);
        for tag in &mut tags {
            (tag.waiting, tag.lease_error, tag.seconds_left) = match tag.tag.as_str() {
                "waiting" => (1, String::new(), None),
                "failing" => (0, "no row".to_owned(), None),
                "soon" => (0, String::new(), Some(5)),
                "busy" => (0, String::new(), Some(900)),
                _ => (0, String::new(), None),
            };
        }
        most_urgent_first(&mut tags);
        let names = tags.each_ref().map(|tag| tag.tag.as_str());
        assert_eq!(names, ["waiting", "failing", "soon", "busy", "idle-a", "idle-b"]);
    }

    #[test]
    fn a_table_of_ranges_fits_every_terminal_and_has_every_column_elsewhere() {
        let mut long = tag(&"订单".repeat(64));
        long.lease_error = "no row of this name".to_owned();
        let tags = [tag("order"), long];
        for columns in [20, 40, 80, 120, 200] {
            for line in range_lines(&tags, Some(columns), "") {
                assert!(width(&line.text) <= columns, "{columns}: {}", line.text);
            }
        }
        let heading = |columns| range_lines(&tags, columns, "").remove(0).text;
        assert!(heading(Some(80)).contains("LASTS  WAITING  POSITION"), "{}", heading(Some(80)));
        assert!(heading(Some(80)).ends_with("ERROR"), "{}", heading(Some(80)));
        let words = "TAG REMAINING LASTS WAITING POSITION NEXT STEP ROW STEP ISSUED LAST LEASE \
                     CURRENT NEXT ERROR";
        let all = heading(None).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(all, words);
        let all = heading(Some(400)).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(all, words);
    }

    #[test]
    fn on_a_terminal_the_error_of_the_store_is_not_repeated_for_each_tag() {
        let tags = [TagStatus { lease_error: "disk full".to_owned(), ..tag("order") }];
        let line = |columns| range_lines(&tags, columns, "disk full").remove(1);
        assert!(line(Some(80)).text.ends_with("  the store fails"), "{}", line(Some(80)).text);
        assert!(line(None).text.ends_with("  disk full"), "{}", line(None).text);
        assert_eq!(line(Some(80)).tone, Tone::Warning);
    }

    #[test]
    fn counts_are_grouped_and_ids_are_not() {
        let list = row_lines(&[TagStatus { max_id: 1_234_567, ..tag("order") }], None).remove(1);
        assert_eq!(list, "order     1,000  1234567      42  orders\\u{7}");
        let line = range_lines(&[tag("order")], None, "").remove(1).text;
        let cells = "order      2,958  1 min 30 s        0        43      2,000     1,000      42  \
                     2,000 IDs, 1 min 1 s ago  [1, 1001)  [1001, 3001)";
        assert_eq!(line, cells);
    }
}
