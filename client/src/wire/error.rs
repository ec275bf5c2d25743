//! The numbered errors of the protocol. A number keeps its meaning for ever. An unknown number is
//! passed on and never fails to decode, so old clients work with new daemons.

use bincode::{Decode, Encode};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The number of an error. 1xx: the bytes break the protocol. 2xx: the call asks for
        /// something impossible or forbidden. 3xx: the same call may succeed later.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// A number that this version of the crate does not list.
            Other(u16),
        }

        impl ErrorCode {
            /// Every code that this version of the crate lists.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The number, as it is sent.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The code with this number.
            #[must_use]
            pub const fn from_number(number: u16) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Other(other),
                }
            }

            /// The name, as the documentation gives it; `Other` if the crate does not list it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Other(_) => "Other",
                }
            }
        }
    };
}

error_codes! {
    /// A `Hello` has another magic than `LEAF`. The connection closes.
    BadMagic = 100,
    /// The daemon does not support the requested version; `detail` is its newest version. The
    /// connection closes.
    VersionUnsupported = 101,
    /// A call arrived before `Hello`. The connection closes.
    HelloExpected = 102,
    /// The message does not decode, or its ID is 0.
    Malformed = 103,
    /// The daemon does not have this call; `detail` is its number.
    UnknownCall = 104,
    /// The frame is too long; `detail` is the limit in bytes. The connection closes.
    FrameTooLarge = 105,

    /// A `count`, `limit` or `first` is out of range, or the count exceeds what a quota gives in a
    /// second, or a text of a loan is too long; `detail` is the highest valid value.
    BadCount = 200,
    /// The tag is empty, longer than 128 characters, or contains control characters.
    BadTag = 201,
    /// The store has no such tag.
    UnknownTag = 202,
    /// The tag already exists.
    TagExists = 203,
    /// The step is not between 1 and the limit; `detail` is the limit.
    BadStep = 204,
    /// The description is longer than 256 characters.
    BadDescription = 205,
    /// The access rules do not allow this; `detail` is the caller's user ID. If the rules do not
    /// let the user connect, the connection closes.
    Forbidden = 206,
    /// The daemon is not configured for this call.
    NotConfigured = 207,
    /// The daemon has reached its limit on tags; `detail` is the limit.
    TooManyTags = 208,
    /// The registry has no such worker ID.
    UnknownWorker = 209,
    /// The owner of the worker ID is live, or not known to be gone.
    WorkerInUse = 210,
    /// The worker ID has another owner than the one named.
    WrongOwner = 211,
    /// A text is no public ID by one of the daemon's keys, or a number is no ID; `detail` is its place in
    /// the list, from 0.
    BadPublicId = 212,

    /// The daemon or this user has reached the limit on connections; `detail` is the limit. The
    /// connection closes.
    TooManyConnections = 300,
    /// This connection or this user has reached the limit on waiting requests; `detail` is the
    /// limit.
    TooManyInFlight = 301,
    /// Memory is drained, and the store gave no range before the deadline.
    StoreUnavailable = 302,
    /// The daemon could not write its state directory before the deadline.
    StateUnavailable = 303,
    /// The clock is behind the times already used, or before the layout's epoch; `detail` is the
    /// distance in ms.
    ClockBackwards = 304,
    /// The daemon has no usable worker ID.
    WorkerUnavailable = 305,
    /// The clock is past the end of the layout. An operator has to act.
    TimeExhausted = 306,
    /// The tag's row is unusable (absurd step, `max_id` at its end, negative values). An operator
    /// has to act.
    BadRow = 307,
    /// The deadline passed although nothing is broken: the call asked for more than could be issued
    /// in time.
    DeadlineExceeded = 308,
    /// The daemon is stopping.
    ShuttingDown = 309,
    /// Too many requests wait for this tag, or this user waits for too many new tags; `detail` is
    /// the limit.
    TooManyWaiting = 310,
    /// The registry of worker IDs does not answer.
    RegistryUnavailable = 311,
    /// The user or the tag has used up its quota for now; `detail` is the quota in IDs per second.
    QuotaExceeded = 312,
}

/// Number and name together, as in `302 StoreUnavailable`, which is how the runbook lists it.
impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other(number) => write!(f, "error {number}"),
            code => write!(f, "{} {}", code.number(), code.name()),
        }
    }
}

impl ErrorCode {
    /// Whether the same call may succeed later without anyone changing anything.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        // These two last until an operator acts.
        let stays = matches!(self, Self::TimeExhausted | Self::BadRow);
        matches!(self.number(), 300..=399) && !stays
    }
}

/// An error of the daemon, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WireError {
    /// The number; see [`ErrorCode`].
    pub code: u16,
    /// How long to wait before the next try, in milliseconds; 0 if unknown.
    pub retry_after_ms: u32,
    /// A number that belongs to the code, such as a limit or a distance; 0 if none does.
    pub detail: u64,
    /// A message for people: what was tried, with which value, and what to do. Its wording may
    /// change.
    pub message: String,
}

impl WireError {
    /// Makes an error without a detail or a time to wait.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.number(), retry_after_ms: 0, detail: 0, message: message.into() }
    }

    /// Sets the detail.
    #[must_use]
    pub fn with_detail(mut self, detail: u64) -> Self {
        self.detail = detail;
        self
    }

    /// Sets the time to wait before the next try, in milliseconds.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u32) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }

    /// The error's number as a code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::from_number(self.code)
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code(), self.message)
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_keeps_its_number_and_unknown_numbers_survive() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), code);
            assert_ne!(code.name(), "Other");
        }
        assert_eq!(ErrorCode::from_number(9999), ErrorCode::Other(9999));
        assert_eq!(ErrorCode::Other(9999).number(), 9999);
    }

    #[test]
    fn messages_show_number_and_name_together() {
        let error = WireError::new(ErrorCode::StoreUnavailable, "connection refused");
        assert_eq!(error.to_string(), "302 StoreUnavailable: connection refused");
        assert_eq!(ErrorCode::Forbidden.to_string(), "206 Forbidden");
        let unknown = WireError { code: 9999, ..error };
        assert_eq!(unknown.to_string(), "error 9999: connection refused");
    }
}
