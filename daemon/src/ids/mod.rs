//! The vocabulary of segments: tag names, ranges of IDs, and the runs of IDs in an answer. Plain
//! values; no clock and no IO.

mod range;
mod runs;
mod tag;

pub use range::{MAX_END, MAX_STEP, Range, RangeQueue};
pub use runs::Runs;
pub use tag::{BadTag, BizTag};
