//! What a message from the daemon means for the client and its connection.

use super::answer::reply_name;
use crate::error::ProtocolError;
use crate::wire::{ErrorCode, Reply, Response, UNSOLICITED, WireError};

/// A message from the daemon, interpreted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DaemonEvent {
    /// The answer to a request.
    Answer { id: u64, reply: Reply },
    /// The daemon is stopping and turned this request away. Repeat it on the next connection.
    Repeat { id: u64 },
    /// The daemon is stopping. It sends the answers that it has, then closes.
    Goodbye,
    /// An error about the connection, which the daemon closes.
    Closing(WireError),
}

impl TryFrom<Response> for DaemonEvent {
    type Error = ProtocolError;

    fn try_from(Response { id, reply }: Response) -> Result<Self, ProtocolError> {
        match reply {
            Reply::Goodbye => Ok(Self::Goodbye),
            Reply::Error(error) if error.code() == ErrorCode::ShuttingDown => {
                Ok(if id == UNSOLICITED { Self::Goodbye } else { Self::Repeat { id } })
            }
            Reply::Error(error) if id == UNSOLICITED => Ok(Self::Closing(error)),
            other if id == UNSOLICITED => {
                Err(ProtocolError::UnexpectedReply { expected: "Goodbye", got: reply_name(&other) })
            }
            reply => Ok(Self::Answer { id, reply }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: u64, reply: Reply) -> Result<DaemonEvent, ProtocolError> {
        DaemonEvent::try_from(Response { id, reply })
    }

    #[test]
    fn a_stopping_daemon_fails_no_call() {
        let stopping = || Reply::Error(WireError::new(ErrorCode::ShuttingDown, ""));
        assert_eq!(of(7, stopping()), Ok(DaemonEvent::Repeat { id: 7 }));
        assert_eq!(of(UNSOLICITED, stopping()), Ok(DaemonEvent::Goodbye));
        assert_eq!(of(UNSOLICITED, Reply::Goodbye), Ok(DaemonEvent::Goodbye));
    }

    #[test]
    fn an_error_concerns_its_request_and_with_id_0_the_connection() {
        let error = || WireError::new(ErrorCode::Malformed, "");
        let reply = Reply::Error(error());
        assert_eq!(of(7, reply.clone()), Ok(DaemonEvent::Answer { id: 7, reply }));
        assert_eq!(of(UNSOLICITED, Reply::Error(error())), Ok(DaemonEvent::Closing(error())));
    }

    #[test]
    fn any_other_unsolicited_message_is_a_protocol_error() {
        assert!(of(UNSOLICITED, Reply::Time { unix_ms: 1 }).is_err());
    }
}
