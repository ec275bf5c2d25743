//! Callers that ask for many tags in turn. With thousands of tags, none is in a nearby cache when its request
//! comes, and keeping one costs more than finding it.

use smallvec::SmallVec;

use super::Session;
use crate::segment::table::{NameHash, TagPlace};

/// How many requests [`Session::look_ahead`] looks at. Their tags fit into the smallest cache.
pub(crate) const LOOK_AHEAD: usize = 32;

/// What a session knows of the tags that it does not keep.
#[derive(Default)]
pub(super) struct OtherTags {
    /// The hash of the last name. Asked for twice in a row, the session keeps its tag.
    last_name: Option<NameHash>,
    /// Whether there was a request since the last look ahead.
    are_used: bool,
    /// Where the tags of the next requests may be, the first one last.
    next: Vec<TagPlace>,
}

impl OtherTags {
    /// Whether to look at the next requests: there are some, and the caller has asked for many tags since the
    /// last look. The end of a batch is no look, or the beginning of the next batch would go without one.
    fn are_worth_a_look(&mut self, there_are_some: impl FnOnce() -> bool) -> bool {
        let look = self.are_used && there_are_some();
        if look {
            self.are_used = false;
        }
        look
    }
}

impl Session {
    /// Takes IDs of a tag that the session does not keep, if no quota counts them.
    #[inline(never)]
    pub(super) fn take_of_other(&mut self, name: &str, count: u32) -> Option<u64> {
        let segments = &self.service.segments;
        self.other_tags.are_used = true;
        let place = self.other_tags.next.pop();
        let place = place.unwrap_or_else(|| TagPlace::unseen(segments.hash(name.as_bytes())));
        if self.other_tags.last_name.replace(place.hash) == Some(place.hash)
            || !self.visitor.is_unmetered()
            || self.visitor.grant().tag(name).is_err()
        {
            return None;
        }
        segments.take_of(place, name, count)
    }

    /// Prepares for requests of these names, if the caller is one that asks for many tags in turn. A wrong
    /// guess costs time and nothing else.
    #[inline]
    pub(crate) fn look_ahead<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) {
        let mut names = names.peekable();
        if self.other_tags.are_worth_a_look(|| names.peek().is_some()) {
            let last = self.last_tag.as_ref().map(|last| last.name.as_str().as_bytes());
            let segments = &self.service.segments;
            let others = names.filter(|name| Some(*name) != last);
            let mut hashes: SmallVec<[NameHash; LOOK_AHEAD]> =
                others.map(|name| segments.hash(name)).collect();
            hashes.reverse();
            self.other_tags.next.clear();
            // For a single one it gains nothing.
            if hashes.len() > 1 {
                segments.look_for(&hashes, &mut self.other_tags.next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_ends_where_a_look_ahead_would_begin_leaves_the_next_batch_its_look() {
        let mut tags = OtherTags::default();
        assert!(!tags.are_worth_a_look(|| panic!("callers of one tag pay nothing")));
        tags.are_used = true;
        assert!(!tags.are_worth_a_look(|| false), "the batch is at its end");
        assert!(tags.are_worth_a_look(|| true), "the next one begins");
        assert!(!tags.are_worth_a_look(|| true), "it asks for one tag only");
    }
}
