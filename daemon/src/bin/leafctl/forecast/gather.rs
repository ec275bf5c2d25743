//! Reads the forecasts page by page, and keeps the tags that reach a limit first: leafd may know ten
//! million tags, and it has rates of 5,000.

use std::cmp::Reverse;

use leaf_client::wire::{ForecastPage, MAX_TAGS_PER_PAGE, TagForecast};

use super::reach::first_ahead;
use crate::exit::Failure;

/// The most tags to keep. More than leafd has rates of, so that no tag with a date is left out.
const MOST_KEPT: usize = 10_000;

/// The tags that reach a limit first, and what leafd says beside them.
#[derive(Debug)]
pub(super) struct FirstTags {
    /// leafd's clock (ms since 1970).
    pub(super) now_ms: u64,
    /// When the layout of the snowflake IDs ends (ms since 1970); none without snowflake IDs.
    pub(super) layout_end_ms: Option<u64>,
    /// The tag that reaches a limit first comes first; those that never do come last, the highest IDs
    /// first.
    pub(super) tags: Vec<TagForecast>,
    /// How many tags there are beyond.
    pub(super) left_out: usize,
}

impl FirstTags {
    /// Those of one page.
    pub(super) fn of(page: ForecastPage) -> Self {
        let ForecastPage { unix_ms, layout_end_unix_ms, tags } = page;
        let mut this =
            Self { now_ms: unix_ms, layout_end_ms: layout_end_unix_ms, tags, left_out: 0 };
        this.keep_first();
        this
    }

    /// Takes in another page. Sorts now and then, not each time.
    fn add(&mut self, page: ForecastPage) {
        self.now_ms = page.unix_ms;
        self.layout_end_ms = page.layout_end_unix_ms;
        self.tags.extend(page.tags);
        if self.tags.len() >= 2 * MOST_KEPT {
            self.keep_first();
        }
    }

    fn keep_first(&mut self) {
        self.tags.sort_by(|a, b| place(a).cmp(&place(b)));
        self.left_out += self.tags.len().saturating_sub(MOST_KEPT);
        self.tags.truncate(MOST_KEPT);
    }
}

/// The place of a tag in the order.
fn place(tag: &TagForecast) -> (u64, Reverse<u64>, &str) {
    (first_ahead(tag).unwrap_or(u64::MAX), Reverse(tag.max_id), &tag.tag)
}

/// All tags; `page(after, limit)` returns those whose names follow `after`.
///
/// # Errors
/// Those of `page`; `Protocol` if the pages do not advance, which would never end.
pub(super) fn all<E>(
    mut page: impl FnMut(&str, u32) -> Result<ForecastPage, E>,
) -> Result<FirstTags, Failure>
where
    Failure: From<E>,
{
    let mut found = FirstTags { now_ms: 0, layout_end_ms: None, tags: Vec::new(), left_out: 0 };
    let mut after = String::new();
    loop {
        let more = page(&after, MAX_TAGS_PER_PAGE)?;
        let is_sorted = more.tags.is_sorted_by(|a, b| a.tag < b.tag);
        if !is_sorted || more.tags.first().is_some_and(|first| first.tag <= after) {
            return Err(Failure::Protocol(format!(
                "the page of forecasts after {after:?} is not sorted by name"
            )));
        }
        let last = more.tags.last().map(|last| last.tag.clone());
        found.add(more);
        // Only a page without tags ends the list.
        let Some(last) = last else { break };
        after = last;
    }
    found.keep_first();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW_MS, growing, page};
    use super::*;

    fn gathered(tags: &[TagForecast]) -> FirstTags {
        let mut asked = 0;
        let found = all(|after, limit| {
            asked += 1;
            let later = tags.iter().filter(|tag| tag.tag.as_str() > after);
            Ok::<_, Failure>(page(later.take(limit as usize).cloned().collect()))
        });
        assert_eq!(asked, tags.len().div_ceil(MAX_TAGS_PER_PAGE as usize) + 1);
        found.unwrap()
    }

    fn names(found: &FirstTags) -> Vec<&str> {
        found.tags.iter().map(|tag| tag.tag.as_str()).collect()
    }

    #[test]
    fn what_ends_first_comes_first_and_what_never_ends_last_with_the_highest_ids_first() {
        let idle = |name: &str, max_id| TagForecast { max_id, ..growing(name, None, None) };
        let found = gathered(&[
            idle("a", 5),
            growing("b", Some(NOW_MS + 2000), Some(NOW_MS + 9000)),
            growing("c", None, Some(NOW_MS + 1000)),
            idle("d", 1 << 40),
            growing("e", Some(NOW_MS + 1000), None),
        ]);
        assert_eq!(names(&found), ["c", "e", "b", "d", "a"]);
        assert_eq!((found.now_ms, found.layout_end_ms, found.left_out), (NOW_MS, Some(1), 0));
    }

    #[test]
    fn of_a_hundred_thousand_tags_the_first_are_kept_and_the_rest_is_counted() {
        let tag = |number: u64| {
            let at = number.is_multiple_of(20).then_some(NOW_MS + 1_000_000 - number);
            growing(&format!("tag-{number:06}"), at, None)
        };
        let found = gathered(&(0..100_000).map(tag).collect::<Vec<_>>());
        assert_eq!((found.tags.len(), found.left_out), (MOST_KEPT, 90_000));
        assert!(found.tags[..5000].iter().all(|tag| first_ahead(tag).is_some()));
        assert_eq!(found.tags[0].tag, "tag-099980");
        assert!(found.tags.capacity() < 4 * MOST_KEPT);
    }

    #[test]
    fn without_tags_the_end_of_the_layout_is_known() {
        let found = gathered(&[]);
        assert!(found.tags.is_empty());
        assert_eq!((found.now_ms, found.layout_end_ms), (NOW_MS, Some(1)));
    }

    #[test]
    fn pages_that_do_not_advance_are_an_error_instead_of_an_endless_loop() {
        for names in [["a", "b"], ["b", "a"], ["a", "a"]] {
            let same = || page(names.iter().map(|name| growing(name, None, None)).collect());
            let failure = all(|_, _| Ok::<_, Failure>(same())).unwrap_err();
            assert_eq!(failure.code(), 76, "{names:?}");
        }
    }
}
