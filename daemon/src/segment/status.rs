//! The status of one tag, from its row and from memory.

use leaf_client::wire::{MAX_DESCRIPTION_CHARS, Span, TagStatus};

use super::messages::BufferView;
use super::service::Segments;
use crate::ids::{BizTag, Range};
use crate::store::Row;

/// Longest error text in a status, in bytes: a full page of statuses has to fit into an answer.
const MOST_ERROR_TEXT: usize = 300;

/// What memory has of a tag.
#[derive(Default)]
struct InMemory {
    view: BufferView,
    /// Why the last lease failed, with the number of the error; empty if it did not.
    lease_error: String,
    next_step: u64,
    seconds_left: Option<u64>,
}

impl Segments {
    /// The status of a tag. Without a row, what memory knows stands in for it.
    pub(super) fn status_of(&self, name: &BizTag, row: Option<Row>) -> TagStatus {
        let InMemory { view, lease_error, next_step, seconds_left } = self.in_memory(name);
        let (row_step, max_id, description) = match row {
            // leafd moves a row that went backwards forward to what this host has seen.
            Some(row) => {
                let max_id = row.max_id.natural().max(view.high_water_mark);
                (row.step.natural(), max_id, row.description)
            }
            None => (view.row_step, view.high_water_mark, String::new()),
        };
        let span = |range: &Range| Span { start: range.start(), end: range.end() };
        let is_left = |range: &&Range| view.position.is_some_and(|at| at < range.end());
        let mut ranges = view.leases.iter().filter(is_left);
        TagStatus {
            tag: name.as_str().to_owned(),
            row_step,
            step: next_step.max(row_step),
            max_id,
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            current: ranges.next().map(span),
            next: ranges.next().map(span),
            position: view.position.unwrap_or(0),
            remaining: view.remaining,
            issued: view.issued,
            leases: view.lease_count,
            last_lease_ms_ago: view.last_lease.map(|last| {
                u64::try_from(self.now().saturating_sub(last).as_millis()).unwrap_or(u64::MAX)
            }),
            last_lease_size: view.last_size,
            waiting: view.waiting as u64,
            lease_error: shortened(lease_error),
            seconds_left,
        }
    }

    fn in_memory(&self, name: &BizTag) -> InMemory {
        let Some(tag) = self.find(name.as_str()) else { return InMemory::default() };
        let (state, now) = (tag.lock(), self.now());
        let buffer = &state.buffer;
        let view = buffer.view();
        let lease_error = match &view.lease_error {
            // The error that the tag saw when it began to wait may be out of date.
            _ if buffer.waits_for_store() => self.store_error(),
            Some(failure) => format!("{}: {failure}", failure.code()),
            None => String::new(),
        };
        let (next_step, seconds_left) = (buffer.next_step(now), buffer.seconds_left(now));
        InMemory { view, lease_error, next_step, seconds_left }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MOST_ERROR_TEXT {
        text.truncate(text.floor_char_boundary(MOST_ERROR_TEXT));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{
        MAX_RESPONSE_LEN, MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, Reply, Response, decode_response,
        encode_response, split_frame,
    };

    use super::*;

    #[test]
    fn a_page_of_the_longest_tags_fits_into_an_answer() {
        let span = Some(Span { start: u64::MAX, end: u64::MAX });
        let longest = TagStatus {
            tag: "🦀".repeat(MAX_TAG_CHARS),
            row_step: u64::MAX,
            step: u64::MAX,
            max_id: u64::MAX,
            description: "🦀".repeat(MAX_DESCRIPTION_CHARS),
            current: span,
            next: span,
            position: u64::MAX,
            remaining: u64::MAX,
            issued: u64::MAX,
            leases: u64::MAX,
            last_lease_ms_ago: Some(u64::MAX),
            last_lease_size: u64::MAX,
            waiting: u64::MAX,
            lease_error: shortened("x".repeat(10_000)),
            seconds_left: Some(u64::MAX),
        };
        let page = Reply::Tags(vec![longest; MAX_TAGS_PER_PAGE as usize]);
        let response = Response { id: u64::MAX, reply: page };
        let mut frame = Vec::new();
        encode_response(&response, &mut frame);
        let (body, _) = split_frame(&frame, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
    }
}
