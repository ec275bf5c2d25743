//! Finds tags among those that this host has used, in an order that the caller chooses. From memory
//! alone, and in turns: however many tags there are, no request waits for a search.

use std::collections::BTreeMap;
use std::sync::Arc;

use leaf_client::wire::TagStatus;

use super::list::Walk;
use super::messages::TagFigures;
use super::service::Segments;
use super::tag::Tag;
use crate::ids::BizTag;

/// The order of what a search finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TagOrder {
    #[default]
    Name,
    Rate,
    /// Tags that nobody uses come last, in both directions.
    SecondsLeft,
    Issued,
    Waiting,
    /// 1 for a tag whose leases fail, else 0.
    Failing,
}

/// What to find.
#[derive(Debug, Clone, Default)]
pub(crate) struct TagSearch {
    /// Part of the name, in lower case; empty for all.
    pub(crate) text: String,
    pub(crate) order: TagOrder,
    pub(crate) descending: bool,
    /// How many of the first tags to leave out.
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

/// A tag that was found.
#[derive(Debug)]
pub(crate) struct FoundTag {
    pub(crate) status: TagStatus,
    /// IDs that are asked for in 1000 seconds, at the present rate.
    pub(crate) per_1000_s: u64,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct FoundTags {
    /// How many tags match, on this page or not.
    pub(crate) matching: u64,
    pub(crate) tags: Vec<FoundTag>,
    pub(crate) worst: WorstTags,
}

/// What needs a look among all tags that this host has used, whether they match or not.
#[derive(Debug, Default)]
pub(crate) struct WorstTags {
    /// The tag that runs out first, and in how many seconds; `None` if nobody asks.
    pub(crate) lowest: Option<(u64, BizTag)>,
    /// How many tags there are whose leases fail.
    pub(crate) failing: u64,
}

impl WorstTags {
    fn add(&mut self, tag: &TagFigures<'_>) {
        self.failing += u64::from(tag.is_failing);
        if let Some(left) = tag.seconds_left
            && self.lowest.as_ref().is_none_or(|(lowest, _)| left < *lowest)
        {
            self.lowest = Some((left, tag.name.clone()));
        }
    }
}

/// The first tags by their keys, of which the lowest comes first.
struct FirstTags<T> {
    most: usize,
    tags: BTreeMap<(u64, u64), T>,
}

impl<T> FirstTags<T> {
    fn add(&mut self, key: (u64, u64), tag: T) {
        let is_late = || self.tags.last_key_value().is_some_and(|(last, _)| *last < key);
        if self.tags.len() >= self.most && is_late() {
            return;
        }
        self.tags.insert(key, tag);
        if self.tags.len() > self.most {
            self.tags.pop_last();
        }
    }
}

impl TagSearch {
    /// The place of a tag in the order: the lowest comes first. `number` rises with the name.
    fn key(&self, value: Option<u64>, number: u64) -> (u64, u64) {
        let turned = |value: u64| if self.descending { u64::MAX - value } else { value };
        match self.order {
            TagOrder::Name => (0, turned(number)),
            _ => (value.map_or(u64::MAX, turned), number),
        }
    }

    /// Whether the search is for tags of this name.
    fn matches(&self, name: &str) -> bool {
        self.text.is_empty() || name.to_lowercase().contains(&self.text)
    }
}

impl Segments {
    /// Finds tags that this host has used.
    pub(crate) async fn search(&self, search: &TagSearch) -> FoundTags {
        let mut first = FirstTags { most: search.skip + search.limit, tags: BTreeMap::new() };
        let (mut walk, mut matching, mut worst) = (Walk::default(), 0, WorstTags::default());
        while let Some(tags) = walk.next(self) {
            for tag in tags {
                let Some(value) = self.value_of(&tag, search.order, &mut worst) else { continue };
                if search.matches(tag.name().as_str()) {
                    matching += 1;
                    first.add(search.key(value, matching), tag);
                }
            }
            tokio::task::yield_now().await;
        }
        let page = first.tags.into_values().skip(search.skip);
        let tags = page.map(|tag| FoundTag {
            status: self.status_of(tag.name(), None),
            per_1000_s: tag.lock().buffer.per_1000_s(self.now()),
        });
        FoundTags { matching, tags: tags.collect(), worst }
    }

    /// What a tag is ordered by; `None` if this host knows only its name. Takes the tag into `worst`.
    #[expect(clippy::option_option, reason = "a known tag may have no value")]
    fn value_of(
        &self,
        tag: &Arc<Tag>,
        order: TagOrder,
        worst: &mut WorstTags,
    ) -> Option<Option<u64>> {
        let (state, now) = (tag.lock(), self.now());
        let counts = state.buffer.counts();
        if counts.gone || counts.high_water_mark == 0 {
            return None;
        }
        let figures = state.buffer.figures(tag.name(), now);
        worst.add(&figures);
        Some(match order {
            TagOrder::Name => None,
            TagOrder::Rate => Some(state.buffer.per_1000_s(now)),
            TagOrder::SecondsLeft => figures.seconds_left,
            TagOrder::Issued => Some(counts.issued),
            TagOrder::Waiting => Some(counts.waiting),
            TagOrder::Failing => Some(u64::from(figures.is_failing)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the tags with these values, in the order of their names, as a search of `limit`
    /// finds them.
    fn found(search: &TagSearch, values: &[Option<u64>]) -> Vec<u64> {
        let mut first = FirstTags { most: search.skip + search.limit, tags: BTreeMap::new() };
        for (value, number) in values.iter().zip(1..) {
            first.add(search.key(*value, number), number);
            assert!(first.tags.len() <= first.most);
        }
        first.tags.into_values().skip(search.skip).collect()
    }

    #[test]
    fn a_search_finds_a_page_in_the_order_that_it_names() {
        let values = [Some(5), None, Some(7), Some(5), Some(1)];
        let by = |order, descending, skip, limit| {
            let text = String::new();
            found(&TagSearch { text, order, descending, skip, limit }, &values)
        };
        assert_eq!(by(TagOrder::Name, false, 0, 9), [1, 2, 3, 4, 5]);
        assert_eq!(by(TagOrder::Name, true, 1, 2), [4, 3]);
        assert_eq!(by(TagOrder::SecondsLeft, false, 0, 9), [5, 1, 4, 3, 2]);
        assert_eq!(by(TagOrder::SecondsLeft, true, 0, 9), [3, 1, 4, 5, 2]);
        assert_eq!(by(TagOrder::Rate, true, 0, 2), [3, 1]);
        assert_eq!(by(TagOrder::Rate, true, 2, 2), [4, 5]);
        assert_eq!(by(TagOrder::Rate, true, 9, 2), [0; 0]);
    }

    #[test]
    fn a_search_is_for_a_part_of_the_name_in_any_case() {
        let search = TagSearch { text: "der".into(), ..TagSearch::default() };
        assert!(search.matches("orders") && search.matches("ORDERS") && !search.matches("bills"));
        assert!(TagSearch::default().matches("anything"));
    }
}
