//! The tags that `top` knows, each with its rate, in the order in which it shows them. No IO.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use leaf_client::wire::TagStatus;
use leafd::cli::top::TopSort;

use super::rates::{CountRate, PerSecond, by_leafd};
use super::reader::TagPage;
use crate::tag;

/// A tag and how fast it gives out IDs.
#[derive(Debug)]
pub(super) struct TagTrack {
    pub(super) status: TagStatus,
    pub(super) issued: CountRate,
}

impl TagTrack {
    /// The rate as measured here, or as leafd knows it.
    pub(super) fn rate(&self) -> Option<PerSecond> {
        self.issued.now().or_else(|| by_leafd(&self.status))
    }
}

/// All tags that were read.
#[derive(Debug, Default)]
pub(super) struct KnownTags {
    tags: BTreeMap<String, TagTrack>,
}

impl KnownTags {
    /// Notes what leafd said of a part of the list: tags that are not in it are gone.
    pub(super) fn note(&mut self, page: TagPage) {
        let read: HashSet<&str> = page.tags.iter().map(|tag| tag.tag.as_str()).collect();
        let known = self.tags.range::<str, _>(page.names()).map(|(name, _)| name);
        let gone: Vec<String> =
            known.filter(|name| !read.contains(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| _ = self.tags.remove(name));
        for status in page.tags {
            let name = status.tag.clone();
            let mut issued = self.tags.remove(&name).map(|track| track.issued).unwrap_or_default();
            issued.note(page.at, status.issued);
            self.tags.insert(name, TagTrack { status, issued });
        }
    }

    /// Forgets everything: leafd has restarted, and has other tags in memory.
    pub(super) fn clear(&mut self) {
        self.tags.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    /// The tags whose names contain a text, in order.
    pub(super) fn sorted(&self, sort: TopSort, search: &str) -> Vec<&TagTrack> {
        let found = self.tags.iter().filter(|(name, _)| name.contains(search));
        let mut found: Vec<_> = found.map(|(_, track)| track).collect();
        match sort {
            TopSort::Name => {}
            // Stable: equal rates stay in the order of the names.
            TopSort::Rate => found.sort_by_key(|track| Reverse(track.rate())),
            TopSort::Urgency => found.sort_by(|a, b| tag::by_urgency(&a.status, &b.status)),
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::tests::tag;
    use std::time::Duration;

    fn page(after: &str, second: u64, tags: &[(&str, u64)]) -> TagPage {
        let tags = tags.iter().map(|(name, issued)| {
            let waiting = u64::from(*name == "b");
            TagStatus { issued: *issued, waiting, seconds_left: None, ..tag(name) }
        });
        TagPage { after: after.to_owned(), at: Duration::from_secs(second), tags: tags.collect() }
    }

    fn names(known: &KnownTags, sort: TopSort, search: &str) -> Vec<String> {
        let sorted = known.sorted(sort, search).into_iter();
        sorted.map(|track| track.status.tag.clone()).collect()
    }

    #[test]
    fn tags_come_in_the_order_that_was_asked_for() {
        let mut known = KnownTags::default();
        known.note(page("", 0, &[("a", 0), ("b", 0), ("c", 0)]));
        known.note(page("", 1, &[("a", 10), ("b", 5), ("c", 20)]));
        assert_eq!(names(&known, TopSort::Name, ""), ["a", "b", "c"]);
        assert_eq!(names(&known, TopSort::Rate, ""), ["c", "a", "b"]);
        assert_eq!(names(&known, TopSort::Urgency, ""), ["b", "c", "a"]);
        assert_eq!(names(&known, TopSort::Rate, "a"), ["a"]);
        assert_eq!(known.sorted(TopSort::Name, "")[0].rate(), Some(PerSecond(10_000)));
    }

    #[test]
    fn a_tag_goes_when_the_part_of_the_list_where_it_was_no_longer_has_it() {
        let mut known = KnownTags::default();
        known.note(page("", 0, &[("a", 0), ("b", 0), ("c", 0), ("d", 0)]));
        known.note(page("a", 1, &[("c", 0)]));
        assert_eq!(names(&known, TopSort::Name, ""), ["a", "c", "d"]);
        known.note(page("c", 2, &[]));
        assert_eq!(names(&known, TopSort::Name, ""), ["a", "c"]);
    }
}
