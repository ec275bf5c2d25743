//! Why connecting failed or a connection ended, and which error callers get for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Invalid, ProtocolError};
use crate::wire::WireError;

/// Why an attempt to connect failed, or why a connection ended.
#[derive(Debug, Clone)]
pub(crate) enum ConnectionFailure {
    /// The socket failed or was closed.
    Io(Arc<io::Error>),
    /// The daemon refused the connection as a whole.
    Refused(WireError),
    /// The peer broke the protocol.
    Protocol(ProtocolError),
    /// No socket can have this path.
    Invalid(Invalid),
}

impl ConnectionFailure {
    pub(crate) fn io(kind: io::ErrorKind, message: &'static str) -> Self {
        io::Error::new(kind, message).into()
    }

    /// The daemon announced that it is stopping.
    pub(crate) fn goodbye() -> Self {
        Self::io(io::ErrorKind::ConnectionAborted, "the daemon is stopping")
    }

    /// The daemon closed the connection.
    pub(crate) fn closed() -> Self {
        Self::io(io::ErrorKind::UnexpectedEof, "the daemon closed the connection")
    }

    /// Whether another attempt would fail in the same way. Callers then get the error at once.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            // The permissions of the socket or of its directory keep this user out.
            Self::Io(error) => error.kind() == io::ErrorKind::PermissionDenied,
            Self::Refused(error) => !error.code().is_temporary(),
            Self::Protocol(_) | Self::Invalid(_) => true,
        }
    }

    /// How long the daemon asks to wait before the next connection.
    pub(crate) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused(error) => Duration::from_millis(error.retry_after_ms.into()),
            Self::Io(_) | Self::Protocol(_) | Self::Invalid(_) => Duration::ZERO,
        }
    }

    /// The error that a caller gets.
    pub(crate) fn error(&self, path: &Path) -> Error {
        match self {
            Self::Io(source) => {
                Error::Unavailable { path: path.to_owned(), source: Arc::clone(source) }
            }
            Self::Refused(error) => Error::Refused(error.clone()),
            Self::Protocol(error) => Error::Protocol(error.clone()),
            Self::Invalid(error) => Error::Invalid(*error),
        }
    }
}

impl From<Invalid> for ConnectionFailure {
    fn from(error: Invalid) -> Self {
        Self::Invalid(error)
    }
}

impl From<io::Error> for ConnectionFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl<E: Into<ProtocolError>> From<E> for ConnectionFailure {
    fn from(error: E) -> Self {
        Self::Protocol(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permission_is_fatal_and_an_absent_daemon_is_not() {
        let failure = |kind| ConnectionFailure::from(io::Error::from(kind));
        let denied = failure(io::ErrorKind::PermissionDenied);
        assert!(denied.is_fatal());
        assert!(!denied.error(Path::new("s")).is_temporary());
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused] {
            assert!(!failure(kind).is_fatal());
            assert!(failure(kind).error(Path::new("s")).is_temporary());
        }
    }
}
