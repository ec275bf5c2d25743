//! The settings of a pool.

use std::sync::Arc;
use std::time::Duration;

use super::plan::{ChunkRule, MAX_CHUNK};
use super::shared::{Settings, Shared, Source};
use super::stats::PoolEvent;
use super::{Pool, unsupported};
use crate::error::Error;
use crate::options::Options;
use crate::session::CheckedCall;

/// The size of the first chunk, and of the smallest.
const MIN_CHUNK: u64 = 100;

/// How long a chunk should last.
const LASTS: Duration = Duration::from_secs(1);

/// How old a snowflake ID may be.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The shortest `max-age`: below it, a round trip could outdate a whole chunk.
const SHORTEST_MAX_AGE: Duration = Duration::from_millis(10);

/// A chunk of snowflake IDs lasts this part of their `max-age`: it is prefetched at half, so its last ID
/// is taken when it is three quarters of this part old, and the rest of `max-age` covers a slower rate.
const AGE_PART: u32 = 2;

/// Builds a [`Pool`]. [`Pool::tag`] and [`Pool::snowflake`] begin one.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder(Settings);

impl PoolBuilder {
    pub(super) fn new(source: Source) -> Self {
        let (max_age, lasts) = match &source {
            Source::Tag(_) => (None, LASTS),
            Source::Snowflake => (Some(MAX_AGE), MAX_AGE / AGE_PART),
        };
        let rule = ChunkRule { min: MIN_CHUNK, max: MAX_CHUNK, lasts };
        Self(Settings { source, options: Options::new(), rule, max_age, listener: None })
    }

    /// Sets how to reach the daemon, how long [`Pool::next`] waits, and the back-off between attempts.
    pub fn options(mut self, options: Options) -> Self {
        self.0.options = options;
        self
    }

    /// Sets the size of the first and smallest chunk, 1 to 1,000,000 IDs (100 by default). A process
    /// that gets few IDs loses up to twice as many when it ends.
    pub fn min_chunk(mut self, ids: u32) -> Self {
        self.0.rule.min = u64::from(ids).clamp(1, MAX_CHUNK);
        self.0.rule.max = self.0.rule.max.max(self.0.rule.min);
        self
    }

    /// Sets the size of the largest chunk, 1 to 1,000,000 IDs (1,000,000 by default). The pool never
    /// holds more than two of them.
    pub fn max_chunk(mut self, ids: u32) -> Self {
        self.0.rule.max = u64::from(ids).clamp(1, MAX_CHUNK);
        self.0.rule.min = self.0.rule.min.min(self.0.rule.max);
        self
    }

    /// Sets how old an ID may be when it is taken: 1 s by default for snowflake IDs, whose time would
    /// be wrong by that much, and unlimited for IDs of a tag. At least 10 ms; at most 24 hours.
    pub fn max_age(mut self, max_age: Duration) -> Self {
        let max_age = crate::options::cut(max_age).max(SHORTEST_MAX_AGE);
        self.0.max_age = Some(max_age);
        self.0.rule.lasts = LASTS.min(max_age / AGE_PART);
        self
    }

    /// Calls `listener` for each outage and for its end, from the refill thread, which waits for it. Only
    /// the kernel knows the name of that thread, `leaf-pool`.
    pub fn on_event(mut self, listener: impl Fn(&PoolEvent) + Send + Sync + 'static) -> Self {
        self.0.listener = Some(Arc::new(listener));
        self
    }

    /// Makes the pool. It neither connects nor starts a thread: both happen at the first use, so a
    /// server can make its pool before it forks.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the tag is invalid, [`Error::Unsupported`] if the kernel cannot wipe memory
    /// in the child of a fork (before Linux 4.14).
    pub fn build(self) -> Result<Pool, Error> {
        if let Source::Tag(tag) = &self.0.source {
            CheckedCall::segment(tag, 1)?;
        }
        Ok(Pool::start(Arc::new(Shared::new(self.0).map_err(unsupported)?)))
    }
}
