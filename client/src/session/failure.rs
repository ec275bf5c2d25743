//! Why there is no connection.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ProtocolError};
use crate::wire::WireError;

/// Why an attempt to connect failed, or why a connection ended.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The socket failed, or was closed.
    Io(Arc<io::Error>),
    /// The daemon refused the connection as a whole.
    Refused(WireError),
    /// The peer does not speak the protocol.
    Protocol(ProtocolError),
}

impl Failure {
    pub(crate) fn io(kind: io::ErrorKind, message: &'static str) -> Self {
        io::Error::new(kind, message).into()
    }

    /// The daemon said that it stops.
    pub(crate) fn goodbye() -> Self {
        Self::io(io::ErrorKind::ConnectionAborted, "the daemon is stopping")
    }

    /// The connection ended without a word.
    pub(crate) fn closed() -> Self {
        Self::io(io::ErrorKind::UnexpectedEof, "the daemon closed the connection")
    }

    /// Whether the next attempt would end in the same way, so that callers are told at once.
    pub(crate) const fn is_fatal(&self) -> bool {
        match self {
            Self::Io(_) => false,
            Self::Refused(error) => !error.code().is_temporary(),
            Self::Protocol(_) => true,
        }
    }

    /// What a caller gets to see.
    pub(crate) fn error(&self, path: &Path) -> Error {
        match self {
            Self::Io(source) => {
                Error::Unavailable { path: path.to_owned(), source: Arc::clone(source) }
            }
            Self::Refused(error) => Error::Refused(error.clone()),
            Self::Protocol(error) => Error::Protocol(error.clone()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl<E: Into<ProtocolError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Protocol(error.into())
    }
}
