//! Why leafd ends, and its exit code, after `sysexits.h`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use crate::config::{ConfigError, NoPassword, Problem};
use crate::patience::within;
use crate::state::dir::StateError;
use crate::transport::inherited::InheritError;
use crate::transport::unix::socket::SocketError;

/// The command line is wrong.
pub const EX_USAGE: u8 = 64;
/// An audit has found overlapping leases.
const EX_OVERLAP: u8 = 1;
/// A defect in leafd.
const EX_SOFTWARE: u8 = 70;
/// The operating system refuses something basic.
const EX_OSERR: u8 = 71;
/// leafd cannot create a file or socket.
const EX_CANTCREAT: u8 = 73;
/// Reading or writing fails.
const EX_IOERR: u8 = 74;
/// Another process holds the resource; retry later.
const EX_TEMPFAIL: u8 = 75;
/// The configuration is wrong, or does not fit what is on disk.
const EX_CONFIG: u8 = 78;

/// How long to wait for standard error to accept the last line: it may be a pipe that nobody reads.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Why a command failed, with its exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn config(what: impl Into<String>) -> Self {
        Self::new(EX_CONFIG, what)
    }

    pub(super) fn not_now(what: impl Into<String>) -> Self {
        Self::new(EX_TEMPFAIL, what)
    }

    pub(super) fn output(error: std::io::Error) -> Self {
        Self::new(EX_IOERR, format!("cannot write to standard output: {error}"))
    }

    pub(super) fn system(what: &str, error: &std::io::Error) -> Self {
        Self::new(EX_OSERR, format!("{what}: {error}"))
    }

    pub(super) fn state(what: &str, error: &str) -> Self {
        Self::new(EX_IOERR, format!("{what}: {error}"))
    }

    pub(super) fn no_ends(database: &std::path::Path) -> Self {
        Self::new(
            EX_CONFIG,
            format!(
                "{} has lost its tables, and the journal does not know everything that was issued \
                 from it. Restore the database from a backup if there is one. In any case, run \
                 `leafd adopt --above N`, where N is at least the highest ID of any tag",
                database.display()
            ),
        )
    }

    pub(super) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(EX_IOERR, format!("cannot read {}: {error}", path.display()))
    }

    pub(super) fn overlaps(count: usize) -> Self {
        Self::new(EX_OVERLAP, format!("{count} leases overlap with others"))
    }

    pub(super) fn software(what: &str) -> Self {
        Self::new(EX_SOFTWARE, what)
    }

    /// What happened, and what to do.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message on standard error, and returns the exit code.
    #[must_use]
    pub fn exit(self) -> ExitCode {
        let line = format!("leafd: {}\n", self.message);
        // If nobody reads the line, the exit code has to do.
        within(LAST_LINE, move || drop(std::io::stderr().write_all(line.as_bytes())));
        ExitCode::from(self.code)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(EX_CONFIG, error.to_string())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(EX_CONFIG, problem.to_string())
    }
}

impl From<NoPassword> for Failure {
    fn from(error: NoPassword) -> Self {
        Self::new(EX_CONFIG, error.to_string())
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        let code = match error {
            StateError::Locked { .. } => EX_TEMPFAIL,
            StateError::Foreign { .. } | StateError::Copied { .. } | StateError::Unknown { .. } => {
                EX_CONFIG
            }
            StateError::Io { .. } => EX_IOERR,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InheritError> for Failure {
    fn from(error: InheritError) -> Self {
        Self::new(EX_CONFIG, error.to_string())
    }
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        let code = match error {
            SocketError::InUse { .. } => EX_TEMPFAIL,
            SocketError::NoGroup { .. } | SocketError::TooLong { .. } => EX_CONFIG,
            SocketError::NotASocket { .. } | SocketError::Unsafe(_) | SocketError::Io { .. } => {
                EX_CANTCREAT
            }
        };
        Self::new(code, error.to_string())
    }
}
