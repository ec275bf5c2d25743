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
        if std::mem::take(&mut self.other_tags.are_used) {
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
