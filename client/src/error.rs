//! What a call can fail with, and whether trying again makes sense. The daemon's own errors are
//! carried as they came; see [`crate::wire::ErrorCode`] for their numbers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::{ErrorCode, FrameError, ResponseError, WireError};

/// Why a call failed. No ID was given to the caller in any of these cases.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon understood the call and said no; [`WireError::code`] tells why.
    #[error("leafd refused: {0}")]
    Refused(WireError),
    /// There was no connection when the deadline passed. Is the daemon running, and is this its
    /// socket?
    #[error("leafd is not reachable at {}: {source}", path.display())]
    Unavailable {
        /// The socket that was tried.
        path: PathBuf,
        /// What happened at the last attempt.
        source: Arc<io::Error>,
    },
    /// The daemon was connected but did not answer in time.
    #[error("leafd did not answer {call} within {timeout:?}")]
    DeadlineExceeded {
        /// The call, by its name in the protocol.
        call: &'static str,
        /// The timeout of the call.
        timeout: Duration,
    },
    /// The peer does not keep to the protocol; nothing that it sent was used.
    #[error("what answers is no leafd of a known version: {0}")]
    Protocol(#[from] ProtocolError),
    /// The argument can never be right; nothing was sent.
    #[error("{0}")]
    Invalid(#[from] Invalid),
}

impl Error {
    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused(error) => error.code().is_temporary(),
            // This user may not connect.
            Self::Unavailable { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            Self::DeadlineExceeded { .. } => true,
            Self::Protocol(_) | Self::Invalid(_) => false,
        }
    }

    /// The number of the daemon's answer, where it answered.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code()),
            _ => None,
        }
    }

    /// How long the daemon asks to wait before the next try, where it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(error) if error.retry_after_ms > 0 => {
                Some(Duration::from_millis(u64::from(error.retry_after_ms)))
            }
            _ => None,
        }
    }
}

/// How the peer broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// It announced a message longer than any can be.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Its message does not decode.
    #[error(transparent)]
    Undecodable(#[from] ResponseError),
    /// It chose a version of the protocol that was not offered.
    #[error("version {0} of the protocol was not offered")]
    Version(u16),
    /// It answered something else than what was asked.
    #[error("the answer is of kind {got}, not {expected}")]
    UnexpectedReply {
        /// The kind that belongs to the call.
        expected: &'static str,
        /// The kind that came.
        got: &'static str,
    },
    /// It answered a request that is not waiting for an answer.
    #[error("an answer to request {0}, which was not asked or is answered already")]
    Unasked(u64),
    /// A run of IDs without IDs.
    #[error("an empty run of IDs at {first}")]
    EmptyRun {
        /// Where the run begins.
        first: u64,
    },
    /// IDs above `i64::MAX`.
    #[error("{count} IDs from {first} on pass the highest ID")]
    RunTooHigh {
        /// Where the run begins.
        first: u64,
        /// How many IDs it announces.
        count: u32,
    },
    /// The same ID twice in one answer.
    #[error("ID {id} twice in one answer")]
    DuplicateId {
        /// The lowest such ID.
        id: u64,
    },
    /// More or fewer IDs than asked for.
    #[error("{got} IDs where {asked} were asked for")]
    WrongTotal {
        /// How many were asked for.
        asked: u32,
        /// How many came.
        got: u64,
    },
    /// A time that this machine cannot represent.
    #[error("{0} ms since 1970 is not a time")]
    Time(u64),
}

/// An argument that can never be right, found before anything was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A tag without a character.
    #[error("the tag is empty")]
    EmptyTag,
    /// More characters than [`crate::wire::MAX_TAG_CHARS`].
    #[error("the tag has {0} characters; at most 128 are allowed")]
    TagTooLong(usize),
    /// Control characters are not allowed in tags.
    #[error("the tag holds the control character {0:?}")]
    ControlInTag(char),
    /// A count of 0.
    #[error("0 IDs were asked for; ask for 1 or more")]
    CountZero,
    /// A step of 0.
    #[error("a step of 0; it is 1 or more")]
    StepZero,
    /// A first ID of 0, or one above which not even one step fits below the highest ID.
    #[error(
        "the first ID {first} is not between 1 and 2^63 - 2, or has no room for a step (of {step}; \
         0 is the daemon's default) below 2^63"
    )]
    FirstOutOfRange {
        /// The first ID.
        first: u64,
        /// The step.
        step: u32,
    },
    /// More characters than [`crate::wire::MAX_DESCRIPTION_CHARS`].
    #[error("the description has {0} characters; at most 256 are allowed")]
    DescriptionTooLong(usize),
    /// A page of nothing, or of more than [`crate::wire::MAX_TAGS_PER_PAGE`] tags or
    /// [`crate::wire::MAX_WORKERS_PER_PAGE`] worker IDs.
    #[error("a page of {0}; 1 to 100 are allowed")]
    PageSize(u32),
    /// More characters than [`crate::wire::MAX_OWNER_CHARS`].
    #[error("the owner has {0} characters; none has more than 256")]
    OwnerTooLong(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_temporary() {
        let refused = |code| Error::Refused(WireError::new(code, ""));
        assert!(refused(ErrorCode::StoreUnavailable).is_temporary());
        assert!(!refused(ErrorCode::UnknownTag).is_temporary());
        assert!(!refused(ErrorCode::Other(999)).is_temporary());
        assert!(Error::DeadlineExceeded { call: "time", timeout: Duration::ZERO }.is_temporary());
        assert!(!Error::from(Invalid::EmptyTag).is_temporary());
        assert!(!Error::from(ProtocolError::Unasked(1)).is_temporary());
    }

    #[test]
    fn the_daemons_wish_to_wait_is_passed_on() {
        let error = WireError::new(ErrorCode::ClockBackwards, "").with_retry_after_ms(20);
        assert_eq!(Error::Refused(error).retry_after(), Some(Duration::from_millis(20)));
        let error = WireError::new(ErrorCode::BadTag, "");
        assert_eq!(Error::Refused(error).retry_after(), None);
    }

    #[test]
    fn the_path_is_named_when_nobody_is_there() {
        let source = Arc::new(io::Error::from(io::ErrorKind::NotFound));
        let error = Error::Unavailable { path: "/run/leafd/leafd.sock".into(), source };
        assert!(error.to_string().contains("/run/leafd/leafd.sock"), "{error}");
    }
}
