//! The handshake: magic and version out, version and limits back.

use super::answer::reply_name;
use super::event::DaemonEvent;
use super::failure::ConnectionFailure;
use crate::error::ProtocolError;
use crate::wire::{Call, MAGIC, Reply, Request, Response, VERSION, encode_request};

const HELLO_ID: u64 = 1;

/// The ID of a client's first call.
pub(crate) const FIRST_CALL_ID: u64 = 2;

/// Appends the first request of a connection to `out`.
pub(crate) fn greet(out: &mut Vec<u8>) {
    let call = Call::Hello { magic: MAGIC, version: VERSION };
    encode_request(&Request { id: HELLO_ID, call }, out);
}

/// What the daemon allows on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Requests in flight, at least 1.
    pub(crate) max_in_flight: usize,
    /// IDs of one request, at least 1.
    pub(crate) max_count: u32,
}

/// Interprets the first message of a connection.
pub(crate) fn welcome(response: Response) -> Result<Limits, ConnectionFailure> {
    match DaemonEvent::try_from(response)? {
        DaemonEvent::Answer {
            id: HELLO_ID,
            reply: Reply::Hello { version, max_in_flight, max_count },
        } => {
            if version != VERSION {
                return Err(ProtocolError::Version(version).into());
            }
            let max_in_flight = usize::try_from(max_in_flight.max(1)).unwrap_or(usize::MAX);
            Ok(Limits { max_in_flight, max_count: max_count.max(1) })
        }
        DaemonEvent::Answer { id: HELLO_ID, reply: Reply::Error(error) }
        | DaemonEvent::Closing(error) => Err(ConnectionFailure::Refused(error)),
        DaemonEvent::Answer { id: HELLO_ID, reply } => {
            Err(ProtocolError::UnexpectedReply { expected: "Hello", got: reply_name(&reply) }
                .into())
        }
        DaemonEvent::Answer { id, .. } => Err(ProtocolError::Unasked(id).into()),
        DaemonEvent::Goodbye | DaemonEvent::Repeat { .. } => Err(ConnectionFailure::goodbye()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ErrorCode, UNSOLICITED, WireError};

    fn answer(id: u64, reply: Reply) -> Result<Limits, ConnectionFailure> {
        welcome(Response { id, reply })
    }

    fn hello(version: u16, max_in_flight: u32) -> Reply {
        Reply::Hello { version, max_count: 1, max_in_flight }
    }

    #[test]
    fn the_limits_are_at_least_1() {
        let limits = |max_count, max_in_flight| {
            let hello = Reply::Hello { version: VERSION, max_count, max_in_flight };
            let limits = answer(HELLO_ID, hello).unwrap();
            (limits.max_count, limits.max_in_flight)
        };
        assert_eq!(limits(1000, 64), (1000, 64));
        assert_eq!(limits(0, 0), (1, 1));
    }

    #[test]
    fn a_permanent_refusal_is_fatal_and_a_full_daemon_is_not() {
        let refusal = |code| Reply::Error(WireError::new(code, ""));
        for reply in [
            refusal(ErrorCode::VersionUnsupported),
            refusal(ErrorCode::BadMagic),
            refusal(ErrorCode::Forbidden),
            refusal(ErrorCode::Other(999)),
            hello(VERSION + 1, 64),
            Reply::Time { unix_ms: 1 },
        ] {
            assert!(answer(HELLO_ID, reply.clone()).unwrap_err().is_fatal(), "{reply:?}");
        }
        for id in [HELLO_ID, UNSOLICITED] {
            assert!(!answer(id, refusal(ErrorCode::TooManyConnections)).unwrap_err().is_fatal());
            assert!(!answer(id, refusal(ErrorCode::ShuttingDown)).unwrap_err().is_fatal());
            assert!(!answer(id, Reply::Goodbye).unwrap_err().is_fatal());
        }
        assert!(answer(HELLO_ID + 1, hello(VERSION, 64)).unwrap_err().is_fatal());
    }
}
