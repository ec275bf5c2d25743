//! The errors of a call, and whether a retry can help. The daemon's own errors are passed on
//! unchanged; see [`crate::wire::ErrorCode`] for their numbers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::{ErrorCode, FrameError, ResponseError, WireError};

/// Why a call failed. The caller got no ID in any of these cases.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon answered with an error; [`WireError::code`] says which.
    #[error("leafd refused: {0}")]
    Refused(WireError),
    /// The client had no connection when the deadline passed, or this user may not open the socket.
    #[error("leafd is not reachable at {}: {source}", path.display())]
    Unavailable {
        /// The socket that was tried.
        path: PathBuf,
        /// Why the last attempt failed.
        source: Arc<io::Error>,
    },
    /// The client was connected, but the daemon did not answer before the deadline.
    #[error("leafd did not answer {call} within {timeout:?}")]
    DeadlineExceeded {
        /// The name of the call, as the protocol gives it.
        call: &'static str,
        /// The timeout of the call.
        timeout: Duration,
    },
    /// The peer broke the protocol. Nothing in the offending message was used.
    #[error("the peer is not a leafd of a known version: {0}")]
    Protocol(#[from] ProtocolError),
    /// An argument is invalid. Nothing was sent.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// The process was forked since this asynchronous client was made. Make a new one in the child:
    /// the connection is the parent's, and tokio does not work in a child.
    #[error("this client was made before the process was forked; make a new one in the child")]
    Forked,
    /// The system cannot do what this needs.
    #[error("this system cannot provide {what}: {source}")]
    Unsupported {
        /// What is needed.
        what: &'static str,
        /// Why there is none.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later without anyone changing anything.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused(error) => error.code().is_temporary(),
            // Permissions keep this user out until somebody changes them.
            Self::Unavailable { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            Self::DeadlineExceeded { .. } => true,
            Self::Protocol(_) | Self::Invalid(_) | Self::Forked | Self::Unsupported { .. } => false,
        }
    }

    /// The daemon's error code, if the daemon answered with an error.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code()),
            _ => None,
        }
    }

    /// How long the daemon asks to wait before the next try, if it does.
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
    /// It announced a message above the length limit.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It sent a message that does not decode.
    #[error(transparent)]
    Undecodable(#[from] ResponseError),
    /// It chose a protocol version that this client did not offer.
    #[error("it chose protocol version {0}, which was not offered")]
    Version(u16),
    /// It answered a call with a reply of the wrong kind.
    #[error("it answered with {got} instead of {expected}")]
    UnexpectedReply {
        /// The reply that the call calls for.
        expected: &'static str,
        /// The reply that arrived.
        got: &'static str,
    },
    /// It answered a request that is not in flight.
    #[error("it answered request {0}, which was never sent or already has an answer")]
    Unasked(u64),
    /// It sent a run of 0 IDs.
    #[error("it sent an empty run of IDs at {first}")]
    EmptyRun {
        /// The start of the run.
        first: u64,
    },
    /// It sent IDs above `i64::MAX`.
    #[error("it sent {count} IDs from {first}, which pass the highest ID 2^63 - 1")]
    RunTooHigh {
        /// The start of the run.
        first: u64,
        /// The number of IDs in the run.
        count: u32,
    },
    /// It sent the same ID twice in one answer.
    #[error("it sent ID {id} twice in one answer")]
    DuplicateId {
        /// The start of the second run that holds the ID.
        id: u64,
    },
    /// It sent more or fewer IDs than requested.
    #[error("it sent {got} IDs instead of {asked}")]
    WrongTotal {
        /// The number of IDs requested.
        asked: u32,
        /// The number of IDs in the answer.
        got: u64,
    },
    /// It sent a time that this platform cannot represent.
    #[error("it sent the time {0} ms since 1970, which this platform cannot represent")]
    Time(u64),
}

/// An invalid argument, found before anything was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The tag is empty.
    #[error("the tag is empty; a tag has 1 to 128 characters")]
    EmptyTag,
    /// The tag has this many characters, more than [`crate::wire::MAX_TAG_CHARS`].
    #[error("the tag has {0} characters; at most 128 are allowed")]
    TagTooLong(usize),
    /// The tag contains this control character.
    #[error("the tag contains the control character {0:?}; remove it")]
    ControlInTag(char),
    /// The count is 0.
    #[error("the count is 0; request 1 ID or more")]
    CountZero,
    /// The step is 0.
    #[error("the step is 0; it has to be 1 or more")]
    StepZero,
    /// The first ID is 0, or so high that not even one step fits below 2^63.
    #[error(
        "the first ID {first} is out of range: with step {step}, it has to be between 1 and 2^63 - {}",
        u64::from(*step).max(1) + 1
    )]
    FirstOutOfRange {
        /// The first ID that was requested.
        first: u64,
        /// The step that was requested; 0 stands for the daemon's default.
        step: u32,
    },
    /// The description has this many characters, more than [`crate::wire::MAX_DESCRIPTION_CHARS`].
    #[error("the description has {0} characters; at most 256 are allowed")]
    DescriptionTooLong(usize),
    /// The limit of a page is 0, or above [`crate::wire::MAX_TAGS_PER_PAGE`] or
    /// [`crate::wire::MAX_WORKERS_PER_PAGE`].
    #[error("the limit of the page is {0}; 1 to 100 are allowed")]
    PageSize(u32),
    /// This many numbers or public IDs in one call: none, or more than [`crate::wire::MAX_PUBLIC_IDS`].
    #[error("{0} in one call; 1 to 32 are allowed")]
    PublicIds(usize),
    /// The number is no ID of leafd.
    #[error("{0} is above 2^63 - 1, so it is no ID of leafd")]
    IdOutOfRange(u64),
    /// A text of this many characters, which is too long for a public ID.
    #[error("a public ID has 15 characters without its prefix, not {0}")]
    PublicIdTooLong(usize),
    /// The owner has this many characters, more than [`crate::wire::MAX_OWNER_CHARS`].
    #[error("the owner has {0} characters; at most 256 are allowed")]
    OwnerTooLong(usize),
    /// The name of a pool or a borrower is empty, too long, or not printable ASCII.
    #[error("the {what}'s name has to be 1 to {most} printable ASCII characters without spaces")]
    Name {
        /// `pool` or `borrower`.
        what: &'static str,
        /// The limit on its characters.
        most: usize,
    },
    /// The path of the socket is empty.
    #[error("the path of the socket is empty; name the socket of leafd")]
    EmptySocketPath,
    /// The path of the socket has this many bytes, more than Linux takes.
    #[error("the path of the socket has {0} bytes; at most 107 are allowed")]
    SocketPathTooLong(usize),
    /// The path of the socket contains a zero byte.
    #[error("the path of the socket contains a zero byte; remove it")]
    NulInSocketPath,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_temporary_only_if_it_may_pass_without_a_change() {
        let refused = |code| Error::Refused(WireError::new(code, ""));
        assert!(refused(ErrorCode::StoreUnavailable).is_temporary());
        assert!(!refused(ErrorCode::UnknownTag).is_temporary());
        assert!(!refused(ErrorCode::Other(999)).is_temporary());
        assert!(Error::DeadlineExceeded { call: "time", timeout: Duration::ZERO }.is_temporary());
        assert!(!Error::from(Invalid::EmptyTag).is_temporary());
        assert!(!Error::from(ProtocolError::Unasked(1)).is_temporary());
    }

    #[test]
    fn the_daemons_retry_after_is_passed_on() {
        let error = WireError::new(ErrorCode::ClockBackwards, "").with_retry_after_ms(20);
        assert_eq!(Error::Refused(error).retry_after(), Some(Duration::from_millis(20)));
        let error = WireError::new(ErrorCode::BadTag, "");
        assert_eq!(Error::Refused(error).retry_after(), None);
    }

    #[test]
    fn a_first_id_out_of_range_is_reported_with_the_highest_one() {
        let text = |step| Invalid::FirstOutOfRange { first: 1 << 63, step }.to_string();
        for (step, highest) in [(0, "2^63 - 2"), (1, "2^63 - 2"), (50, "2^63 - 51")] {
            assert!(text(step).ends_with(highest), "{}", text(step));
        }
    }

    #[test]
    fn an_unreachable_daemon_is_reported_with_its_path() {
        let source = Arc::new(io::Error::from(io::ErrorKind::NotFound));
        let error = Error::Unavailable { path: "/run/leafd/leafd.sock".into(), source };
        assert!(error.to_string().contains("/run/leafd/leafd.sock"), "{error}");
    }
}
