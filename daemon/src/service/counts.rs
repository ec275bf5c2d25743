//! What the service counts about its callers, for the metrics.

use leaf_client::wire::{ErrorCode, Reply};

use crate::tally::{CallKind, Count, DurationHistogram, RequestTally};

/// Counts since the start, over all transports.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounts {
    pub(crate) requests: RequestTally,
    /// How long requests waited that memory could not answer.
    pub(crate) segment_waits: DurationHistogram,
    pub(crate) snowflake_waits: DurationHistogram,
    /// Requests above the quota of their user, and of their tag.
    pub(crate) over_user_quota: Count,
    pub(crate) over_tag_quota: Count,
    /// Connections above the quota of their user.
    pub(crate) over_connection_quota: Count,
}

impl ServiceCounts {
    /// Counts the answer to a call that gives no IDs.
    pub(super) fn note(&self, call: CallKind, reply: &Reply) {
        match reply {
            Reply::Error(error) => self.refused(call, error.code()),
            _ => self.requests.answered(call),
        }
    }

    /// Counts an error that a transport or the service answers.
    pub(crate) fn refused(&self, call: CallKind, code: ErrorCode) {
        self.requests.refused(call, code);
    }

    pub(super) const fn waits_of(&self, call: CallKind) -> &DurationHistogram {
        match call {
            CallKind::Snowflake => &self.snowflake_waits,
            _ => &self.segment_waits,
        }
    }
}
