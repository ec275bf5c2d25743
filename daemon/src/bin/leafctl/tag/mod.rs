//! `leafctl tag`: lists and administers biz tags. `status` shares the paging and the views.

mod columns;
mod confirm;
mod view;

use std::io::Write;

use leaf_client::wire::{MAX_TAGS_PER_PAGE, TagStatus};
use leafd::cli::leafctl::{DaemonArgs, TagCommand};

use crate::exit::Failure;
use crate::output::{Output, harmless};
use crate::screen::Screen;
use crate::{ask, connect};

pub(crate) use self::columns::{by_urgency, error, most_urgent_first, range_lines, tone};
pub(crate) use self::view::{TagView, lasts};

/// Executes one command of `leafctl tag`.
///
/// # Errors
/// The daemon's refusals, a deletion that the operator does not confirm, and `Output`.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    command: &TagCommand,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut client = connect::prompt(daemon)?;
    let (tag, json) = match command {
        TagCommand::List { json } => {
            let tags = all(|after, limit| client.tag_list(after, limit))?;
            if *json {
                return out.json(&tags.iter().map(TagView::from).collect::<Vec<_>>());
            }
            let columns = Screen::of_stdout().map(|screen| screen.columns);
            let lines = columns::row_lines(&tags, columns);
            return lines.into_iter().try_for_each(|line| out.line(line));
        }
        TagCommand::Create { tag, step, first, description, json } => {
            // 0: the daemon chooses the step.
            (client.tag_create(tag, step.unwrap_or(0), *first, description)?, *json)
        }
        TagCommand::SetStep { tag, step, json } => (client.tag_set_step(tag, *step)?, *json),
        TagCommand::Show { tag, json } => (client.tag_show(tag)?, *json),
        TagCommand::Delete { tag, yes, json } => {
            if !yes {
                confirm::delete(&client.tag_show(tag)?, daemon.given_socket(), ask::terminal())?;
            }
            let deleted = client.tag_delete(tag)?;
            if *json {
                return out.json(&TagView::from(&deleted));
            }
            return out.line(format_args!(
                "deleted {}; a new tag of this name begins at {}",
                harmless(&deleted.tag),
                deleted.max_id,
            ));
        }
    };
    if json { out.json(&TagView::from(&tag)) } else { view::print_all(&tag, out) }
}

/// Every tag, page by page; `page(after, limit)` returns the tags whose names follow `after`.
///
/// # Errors
/// Those of `page`; `Protocol` if the pages do not advance, which would never end.
fn all<E>(
    page: impl FnMut(&str, u32) -> Result<Vec<TagStatus>, E>,
) -> Result<Vec<TagStatus>, Failure>
where
    Failure: From<E>,
{
    up_to(usize::MAX, page)
}

/// The first `most` tags, without reading a page that it does not need.
///
/// # Errors
/// As [`all`].
pub(crate) fn up_to<E>(
    most: usize,
    mut page: impl FnMut(&str, u32) -> Result<Vec<TagStatus>, E>,
) -> Result<Vec<TagStatus>, Failure>
where
    Failure: From<E>,
{
    let mut tags: Vec<TagStatus> = Vec::new();
    loop {
        if tags.len() >= most {
            tags.truncate(most);
            return Ok(tags);
        }
        let after = tags.last().map_or("", |tag| tag.tag.as_str());
        let more = page(after, MAX_TAGS_PER_PAGE)?;
        // Only an empty page ends the list: one request more, but no rule about short pages.
        if more.is_empty() {
            return Ok(tags);
        }
        if !more.is_sorted_by(|a, b| a.tag < b.tag)
            || more.first().is_some_and(|tag| tag.tag.as_str() <= after)
        {
            return Err(Failure::Protocol(format!(
                "the page of tags after {after:?} is not sorted by name"
            )));
        }
        tags.extend(more);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::output::tests::printed;
    use leaf_client::wire::Span;

    /// A tag in the middle of its first range.
    pub(crate) fn tag(name: &str) -> TagStatus {
        TagStatus {
            tag: name.to_owned(),
            row_step: 1000,
            step: 2000,
            max_id: 3001,
            description: "orders\x07".to_owned(),
            current: Some(Span { start: 1, end: 1001 }),
            next: Some(Span { start: 1001, end: 3001 }),
            position: 43,
            remaining: 2958,
            issued: 42,
            leases: 2,
            last_lease_ms_ago: Some(61_000),
            last_lease_size: 2000,
            waiting: 0,
            lease_error: String::new(),
            seconds_left: Some(90),
        }
    }

    fn paged(tags: &[String]) -> Result<Vec<String>, Failure> {
        let pages = |after: &str, limit: u32| {
            let after = tags.iter().filter(|name| name.as_str() > after);
            Ok::<_, Failure>(after.take(limit as usize).map(|name| tag(name)).collect())
        };
        Ok(all(pages)?.into_iter().map(|tag| tag.tag).collect())
    }

    #[test]
    fn all_pages_are_read_even_with_a_full_or_empty_last_page() {
        for count in [0, 1, 99, 100, 101, 200, 10_000] {
            let names: Vec<String> = (0..count).map(|i| format!("tag-{i:05}")).collect();
            assert_eq!(paged(&names).unwrap(), names);
        }
    }

    #[test]
    fn no_page_is_read_that_is_not_needed() {
        let names: Vec<String> = (0..300).map(|i| format!("tag-{i:05}")).collect();
        let mut pages = 0;
        let tags = up_to(100, |after: &str, limit| {
            pages += 1;
            let after = names.iter().filter(|name| name.as_str() > after);
            Ok::<_, Failure>(after.take(limit as usize).map(|name| tag(name)).collect())
        });
        assert_eq!((tags.unwrap().len(), pages), (100, 1));
    }

    #[test]
    fn pages_that_do_not_advance_are_an_error_instead_of_an_endless_loop() {
        let page: Vec<TagStatus> = (0..100).map(|i| tag(&format!("{i:03}"))).collect();
        let failure = all(|_, _| Ok::<_, Failure>(page.clone())).unwrap_err();
        assert_eq!(failure.code(), 76);
    }

    #[test]
    fn control_characters_of_a_tag_do_not_reach_the_terminal() {
        let text = printed(|out| {
            range_lines(&[tag("order")], None, "")
                .iter()
                .try_for_each(|line| out.line(&line.text))?;
            columns::row_lines(&[tag("order")], None).iter().try_for_each(|line| out.line(line))?;
            view::print_all(&tag("order"), out)
        });
        assert!(text.contains("[1001, 3001)") && text.contains("2,000 IDs, 1 min 1 s ago"));
        assert!(!text.contains('\x07'), "{text}");
    }

    #[test]
    fn the_views_show_how_long_memory_lasts_and_promise_no_more_than_a_day() {
        for (seconds_left, text) in [
            (None, "idle"),
            (Some(0), "0 s"),
            (Some(90), "1 min 30 s"),
            (Some(86_399), "23 h 59 min"),
            (Some(86_400), "over a day"),
            (Some(u64::MAX), "over a day"),
        ] {
            let tag = TagStatus { seconds_left, ..tag("order") };
            let line = range_lines(std::slice::from_ref(&tag), None, "").remove(1).text;
            assert!(line.contains(&format!("  {text}        0  ")), "{line}");
            let printed = printed(|out| view::print_all(&tag, out));
            assert!(printed.contains(&format!("\nlasts        {text}\n")), "{printed}");
        }
    }

    #[test]
    fn json_has_every_field_of_a_tag() {
        let value = serde_json::to_value(TagView::from(&tag("order"))).unwrap();
        assert_eq!(value["tag"], "order");
        assert_eq!(value["current"]["end"], 1001);
        assert_eq!(value["last_lease_ms_ago"], 61_000);
        assert_eq!(value["seconds_left"], 90);
        let idle = TagStatus { seconds_left: None, ..tag("order") };
        assert!(serde_json::to_value(TagView::from(&idle)).unwrap()["seconds_left"].is_null());
        assert_eq!(value.as_object().unwrap().len(), 16);
    }
}
