//! The one numbered list of errors. A number, once given, keeps its meaning for ever; an unknown
//! number is carried, never a decoding failure, so old clients survive new daemons.

use bincode::{Decode, Encode};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What went wrong, by number. 1xx: the bytes are not the protocol. 2xx: the call asks
        /// for something that cannot be. 3xx: not now; the same call may succeed later.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// A number that this version of the crate does not know.
            Other(u16),
        }

        impl ErrorCode {
            /// Every code that this version knows.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The code of a number from the wire.
            #[must_use]
            pub const fn from_number(number: u16) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Other(other),
                }
            }

            /// The name as the documentation writes it.
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
    /// The first message is not a `Hello` with the magic `LEAF`. The connection closes.
    BadMagic = 100,
    /// The daemon does not speak the version asked for; `detail` is the newest it does. The
    /// connection closes.
    VersionUnsupported = 101,
    /// A call came before `Hello`. The connection closes.
    HelloExpected = 102,
    /// The message does not decode, or bytes are left over.
    Malformed = 103,
    /// The number of the call is not known.
    UnknownCall = 104,
    /// The frame is longer than allowed; `detail` is the limit in bytes. The connection closes.
    FrameTooLarge = 105,

    /// The count is 0 or above the limit, which may be a quota; `detail` is the limit.
    BadCount = 200,
    /// The tag is empty, longer than 128 characters, or holds control characters.
    BadTag = 201,
    /// No such tag in the store.
    UnknownTag = 202,
    /// The tag exists already.
    TagExists = 203,
    /// The step is not between 1 and the limit; `detail` is the limit.
    BadStep = 204,
    /// The description is longer than 256 characters.
    BadDescription = 205,
    /// The caller may not do this; `detail` is the caller's user ID. When it may not even connect,
    /// the connection closes.
    Forbidden = 206,
    /// The daemon is not configured for this call.
    NotConfigured = 207,
    /// The daemon knows as many tags as it may; `detail` is the limit.
    TooManyTags = 208,
    /// No such worker ID in the registry.
    UnknownWorker = 209,
    /// The owner of the worker ID is live.
    WorkerInUse = 210,
    /// Another owner than the one named has the worker ID.
    WrongOwner = 211,

    /// The connection limit is reached, of the daemon or of the user. The connection closes.
    TooManyConnections = 300,
    /// Too many requests wait on this connection; `detail` is the limit.
    TooManyInFlight = 301,
    /// Memory is drained and the store gave no range before the deadline.
    StoreUnavailable = 302,
    /// The state directory could not be written before the deadline.
    StateUnavailable = 303,
    /// The clock stands behind the timestamps already used; `detail` is the distance in ms.
    ClockBackwards = 304,
    /// The daemon has no worker ID that it may use.
    WorkerUnavailable = 305,
    /// The time field of the layout is used up.
    TimeExhausted = 306,
    /// The tag's row is not usable (absurd step, `max_id` at its end, negative values).
    BadRow = 307,
    /// The deadline passed although nothing is broken: more was asked than could be made in time.
    DeadlineExceeded = 308,
    /// The daemon is stopping.
    ShuttingDown = 309,
    /// Too many requests wait for this tag; `detail` is the limit.
    TooManyWaiting = 310,
    /// The registry of worker IDs does not answer.
    RegistryUnavailable = 311,
    /// The caller, or the tag, has had as many IDs as it may for now; `detail` is the limit in IDs
    /// per second.
    QuotaExceeded = 312,
}

impl ErrorCode {
    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        // These two last until an operator acts.
        let stays = matches!(self, Self::TimeExhausted | Self::BadRow);
        matches!(self.number(), 300..=399) && !stays
    }
}

/// An error as it crosses the socket.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WireError {
    /// The number; see [`ErrorCode`].
    pub code: u16,
    /// How long to wait before trying again, in milliseconds; 0 when there is no telling.
    pub retry_after_ms: u32,
    /// A number that belongs to the code (a limit, a distance); 0 where none does.
    pub detail: u64,
    /// For people: what was tried, with what value, and what to do. Wording may change.
    pub message: String,
}

impl WireError {
    /// An error with neither detail nor a time to retry.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.number(), retry_after_ms: 0, detail: 0, message: message.into() }
    }

    /// The same error with its number.
    #[must_use]
    pub fn with_detail(mut self, detail: u64) -> Self {
        self.detail = detail;
        self
    }

    /// The same error with a time to wait before the next try, in milliseconds.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u32) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }

    /// The code by name.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::from_number(self.code)
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code() {
            ErrorCode::Other(number) => write!(f, "error {number}: {}", self.message),
            code => write!(f, "{}: {}", code.name(), self.message),
        }
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_map_both_ways_and_unknown_numbers_survive() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), code);
            assert_ne!(code.name(), "Other");
        }
        assert_eq!(ErrorCode::from_number(9999), ErrorCode::Other(9999));
        assert_eq!(ErrorCode::Other(9999).number(), 9999);
    }
}
