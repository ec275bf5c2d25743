//! How leafctl ends: the message on stderr and the exit status, after sysexits.h.

use std::io::{self, Write};
use std::process::ExitCode;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WireError};

/// `EX_USAGE`: wrong usage, or the daemon refused for good.
const USAGE: u8 = 64;
/// Something was found that must not be: duplicates, or what `doctor` calls bad.
const FOUND: u8 = 1;
const UNAVAILABLE: u8 = 69;
const OUTPUT: u8 = 74;
const PROTOCOL: u8 = 76;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command cannot succeed as it was given; retrying is useless.
    #[error("{0}")]
    Usage(String),
    /// leafd is unreachable, or cannot do it now.
    #[error("{0}")]
    Unavailable(String),
    /// The peer violates the protocol.
    #[error("{0}")]
    Protocol(String),
    /// An ID came twice.
    #[error("{0}")]
    Duplicates(String),
    /// `doctor` found something bad, and its report says what.
    #[error("something is bad")]
    Sick,
    /// The result could not be written.
    #[error("cannot write the result: {0}")]
    Output(io::Error),
}

impl Failure {
    /// The daemon answered with an error.
    pub(crate) fn refused(error: &WireError) -> Self {
        let mut text = format!("leafd refused: {error}");
        if error.code() == ErrorCode::UnknownCall {
            text.push_str(
                "\nleafd is older than this leafctl: upgrade it, or restart it if you already have.",
            );
        }
        match error.code {
            100..=199 => Self::Protocol(text),
            200..=299 => Self::Usage(text),
            _ => Self::Unavailable(text),
        }
    }

    /// The exit status.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Unavailable(_) => UNAVAILABLE,
            Self::Protocol(_) => PROTOCOL,
            Self::Duplicates(_) | Self::Sick => FOUND,
            Self::Output(_) => OUTPUT,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused(error) => Self::refused(&error),
            Error::Unavailable { source, .. } => Self::Unavailable(format!(
                "{text}\n{}",
                if source.kind() == io::ErrorKind::PermissionDenied {
                    "This user may not connect: join the socket's group, or ask leafd's operator."
                } else {
                    "Is leafd running? Start it (systemctl start leafd, or leafd by hand), or \
                     point --socket or LEAFD_SOCKET at its socket."
                }
            )),
            Error::DeadlineExceeded { .. } => Self::Unavailable(format!(
                "{text}; leafctl status shows what it waits for, --timeout gives it more time"
            )),
            Error::Protocol(_) => Self::Protocol(text),
            Error::Invalid(_) => Self::Usage(text),
            // The enum is non-exhaustive. An error that leafctl does not know is not wrong usage.
            _ => Self::Unavailable(text),
        }
    }
}

/// Prints what went wrong, and returns the exit status.
pub(crate) fn status(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // `leafctl next … | head`: the reader has stopped reading, which is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Sick) => ExitCode::from(FOUND),
        Err(failure) => {
            complain(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

/// Prints clap's message. Help goes to stdout and is no error.
pub(crate) fn of_clap(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(error) => status(Err(Failure::Output(error))),
        Ok(()) if error.use_stderr() => ExitCode::from(USAGE),
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn complain(text: &str) {
    // If even stderr is closed, the exit status still says it.
    let _ = writeln!(io::stderr(), "leafctl: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_class_of_refusals_has_its_exit_status() {
        for (code, status) in [
            (ErrorCode::Malformed, 76),
            (ErrorCode::UnknownTag, 64),
            (ErrorCode::Forbidden, 64),
            (ErrorCode::StoreUnavailable, 69),
            (ErrorCode::Other(999), 69),
        ] {
            let failure = Failure::from(Error::Refused(WireError::new(code, "no")));
            assert_eq!(failure.code(), status, "{code:?}");
        }
        assert_eq!(Failure::Output(io::ErrorKind::StorageFull.into()).code(), 74);
    }

    #[test]
    fn the_error_for_a_call_that_an_older_leafd_does_not_know_names_the_remedy() {
        let of = |code| Failure::refused(&WireError::new(code, "call 11 is unknown")).to_string();
        assert!(of(ErrorCode::UnknownCall).contains("upgrade it"));
        assert!(!of(ErrorCode::Malformed).contains("upgrade it"));
    }

    #[test]
    fn the_error_for_an_absent_daemon_names_its_socket_and_a_remedy() {
        let unavailable = |kind: io::ErrorKind| {
            let source = Arc::new(io::Error::from(kind));
            Failure::from(Error::Unavailable { path: "/run/x.sock".into(), source })
        };
        let failure = unavailable(io::ErrorKind::NotFound);
        let text = failure.to_string();
        assert!(text.contains("/run/x.sock") && text.contains("LEAFD_SOCKET"), "{text}");
        assert_eq!(failure.code(), 69);
        assert!(unavailable(io::ErrorKind::PermissionDenied).to_string().contains("group"));
    }
}
