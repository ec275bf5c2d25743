//! From a buffer's refusal to the error that the caller gets.

use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};

use super::terms::Refusal;
use crate::ids::BizTag;

/// What to wait at the least before trying again, so that refused callers do not rush.
const LEAST_RETRY: Duration = Duration::from_millis(50);

impl Refusal {
    /// As the caller sees it.
    #[must_use]
    pub fn to_wire(&self, tag: &BizTag) -> WireError {
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
                format!(
                    "no IDs of tag {:?} are left in memory, and the store: {why}",
                    tag.as_str()
                ),
            )
            .with_retry_after_ms(retry(*after)),
            Self::State(why, after) => WireError::new(
                ErrorCode::StateUnavailable,
                format!("the state directory cannot be written: {why}"),
            )
            .with_retry_after_ms(retry(*after)),
            Self::Deadline => WireError::new(
                ErrorCode::DeadlineExceeded,
                format!("so many IDs of tag {:?} could not be made in time", tag.as_str()),
            ),
            Self::TooManyWaiting(limit) => WireError::new(
                ErrorCode::TooManyWaiting,
                format!(
                    "{limit} requests wait for tag {:?} already (segment.max-waiting)",
                    tag.as_str()
                ),
            )
            .with_detail(*limit as u64)
            .with_retry_after_ms(retry(LEAST_RETRY)),
            Self::TooManyTags { limit, removed } => {
                let removed = match removed {
                    0 => String::new(),
                    _ => format!(", besides {removed} removed ones whose highest IDs it keeps"),
                };
                let text = format!(
                    "tag {:?} would be one more than {limit} (segment.max-tags){removed}",
                    tag.as_str()
                );
                WireError::new(ErrorCode::TooManyTags, text).with_detail(*limit as u64)
            }
            Self::TooManyNew(own) => WireError::new(
                ErrorCode::TooManyWaiting,
                format!(
                    "tag {:?} is new here, and requests of this user wait for {own} new tags \
                     already",
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
