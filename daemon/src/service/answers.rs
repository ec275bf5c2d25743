//! The answers of a session that are made from plain values.

use leaf_client::wire::{ErrorCode, Reply, WireError};

use crate::ids::{BadTag, Runs};

#[inline]
pub(super) fn ids(runs: Runs) -> Reply {
    // Every request is for at least one ID, so the runs are not empty.
    runs.into_reply().unwrap_or_else(|| {
        Reply::Error(WireError::new(ErrorCode::DeadlineExceeded, "no ID was made"))
    })
}

#[cold]
pub(super) fn bad_count(count: u32, limit: u32) -> WireError {
    let text = format!("count {count} is not between 1 and {limit} (socket.max-count)");
    WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(limit))
}

pub(super) fn bad_tag(bad: BadTag) -> WireError {
    WireError::new(ErrorCode::BadTag, bad.to_string())
}
