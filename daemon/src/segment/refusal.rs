//! The errors that callers get for a buffer's refusals.

use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};

use super::messages::{LeaseFailure, Refusal};
use crate::ids::BizTag;

/// Shortest time before a retry, so that refused callers do not storm.
const LEAST_RETRY: Duration = Duration::from_millis(50);

impl LeaseFailure {
    /// The error that a request gets which memory cannot answer.
    pub(super) const fn code(&self) -> ErrorCode {
        match self {
            Self::Unavailable(_) | Self::NotTried(_) => ErrorCode::StoreUnavailable,
            Self::UnknownTag | Self::NotMade => ErrorCode::UnknownTag,
            Self::BadRow(_) => ErrorCode::BadRow,
            Self::NoRoom { .. } => ErrorCode::TooManyTags,
        }
    }
}

impl Refusal {
    /// The error for a caller that asked for `tag`.
    pub(super) fn to_wire(&self, tag: &BizTag) -> WireError {
        let retry =
            |after: Duration| u32::try_from(after.max(LEAST_RETRY).as_millis()).unwrap_or(u32::MAX);
        match self {
            Self::UnknownTag => WireError::new(
                ErrorCode::UnknownTag,
                format!("the store has no tag {:?}; `leafctl tag create` makes it", tag.as_str()),
            ),
            Self::BadRow(why) => WireError::new(
                ErrorCode::BadRow,
                format!("the row of tag {:?}: {why}", tag.as_str()),
            )
            .with_retry_after_ms(1000),
            Self::Store(why, after) => WireError::new(
                ErrorCode::StoreUnavailable,
                format!("memory has no IDs of tag {:?} left; the store: {why}", tag.as_str()),
            )
            .with_retry_after_ms(retry(*after)),
            Self::State(why, after) => WireError::new(
                ErrorCode::StateUnavailable,
                format!("the state directory cannot be written: {why}"),
            )
            .with_retry_after_ms(retry(*after)),
            Self::Deadline => WireError::new(
                ErrorCode::DeadlineExceeded,
                format!("could not make that many IDs of tag {:?} in time", tag.as_str()),
            ),
            Self::TooManyWaiting(limit) => WireError::new(
                ErrorCode::TooManyWaiting,
                format!(
                    "{limit} requests already wait for tag {:?} (segment.max-waiting)",
                    tag.as_str()
                ),
            )
            .with_detail(*limit as u64)
            .with_retry_after_ms(retry(LEAST_RETRY)),
            Self::TooManyTags { limit, removed } => {
                let removed = match removed {
                    0 => String::new(),
                    _ => format!("; leafd also keeps the highest IDs of {removed} removed tags"),
                };
                let text = format!(
                    "tag {:?} would be one more than {limit} tags (segment.max-tags){removed}",
                    tag.as_str()
                );
                WireError::new(ErrorCode::TooManyTags, text).with_detail(*limit as u64)
            }
            Self::TooManyNew(own) => WireError::new(
                ErrorCode::TooManyWaiting,
                format!(
                    "tag {:?} is new here, and requests of this user already wait for {own} new \
                     tags",
                    tag.as_str()
                ),
            )
            .with_detail(*own as u64)
            .with_retry_after_ms(retry(LEAST_RETRY)),
            Self::Stopping => {
                WireError::new(ErrorCode::ShuttingDown, "leafd is stopping; connect again")
                    .with_retry_after_ms(retry(LEAST_RETRY))
            }
        }
    }
}
