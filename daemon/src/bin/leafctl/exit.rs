//! How leafctl ends: the message on stderr, as text or as JSON, and the exit status, after
//! sysexits.h.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WireError};
use serde::Serialize;

/// `EX_USAGE`: wrong usage, or the daemon refused for good.
const USAGE: u8 = 64;
/// Something was found that must not be: duplicates, or what `doctor` calls bad.
const FOUND: u8 = 1;
const UNAVAILABLE: u8 = 69;
const INPUT_OR_OUTPUT: u8 = 74;
/// `EX_TEMPFAIL`: `run` could not hold the worker ID; starting it again helps.
const LOST: u8 = 75;
const PROTOCOL: u8 = 76;
/// `run` could not start the command, as `env` and `timeout` say it.
const UNSTARTED: u8 = 125;

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
    /// leafd answered with an error.
    #[error("{text}")]
    Refused {
        /// What to print.
        text: String,
        /// The error itself.
        error: WireError,
    },
    /// Standard input could not be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// `doctor` found something bad, and its report says what.
    #[error("something is bad")]
    Sick,
    /// The command of `run` ended with this exit status, and says why itself.
    #[error("the command ended with exit status {0}")]
    Ended(u8),
    /// `run` could not hold the worker ID, and ended the command.
    #[error("{0}")]
    Lost(String),
    /// `run` could not start the command.
    #[error("{0}")]
    Unstarted(String),
    /// The result could not be written.
    #[error("cannot write the result: {0}")]
    Output(io::Error),
}

/// How an error is printed on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// For people.
    Text,
    /// One JSON object on one line.
    Json,
}

/// An error as JSON. Its fields are part of leafctl's interface.
#[derive(Debug, Serialize)]
struct ErrorView<'a> {
    /// leafd's number for the error; `null` if leafctl itself found it.
    code: Option<u16>,
    /// leafd's name for the error, or leafctl's.
    name: &'a str,
    message: &'a str,
    /// `null` if unknown.
    retry_after_ms: Option<u32>,
    /// Of leafctl, once it ends.
    exit_status: u8,
    /// The line of standard input that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
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
        Self::Refused { text, error: error.clone() }
    }

    /// The same failure, with what was done before it.
    pub(crate) fn after(self, done: &str) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(format!("{done} {text}")),
            Self::Unavailable(text) => Self::Unavailable(format!("{done} {text}")),
            Self::Protocol(text) => Self::Protocol(format!("{done} {text}")),
            Self::Refused { text, error } => {
                Self::Refused { text: format!("{done} {text}"), error }
            }
            Self::Duplicates(_)
            | Self::Input(_)
            | Self::Sick
            | Self::Ended(_)
            | Self::Lost(_)
            | Self::Unstarted(_)
            | Self::Output(_) => self,
        }
    }

    /// The exit status.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Unavailable(_) => UNAVAILABLE,
            Self::Protocol(_) => PROTOCOL,
            Self::Duplicates(_) | Self::Sick => FOUND,
            Self::Ended(status) => *status,
            Self::Lost(_) => LOST,
            Self::Unstarted(_) => UNSTARTED,
            Self::Input(_) | Self::Output(_) => INPUT_OR_OUTPUT,
            Self::Refused { error, .. } => match error.code {
                100..=199 => PROTOCOL,
                200..=299 => USAGE,
                _ => UNAVAILABLE,
            },
        }
    }

    /// The name of an error that leafctl itself found, or of leafd's.
    fn name(&self) -> &'static str {
        match self {
            Self::Usage(_) => "Usage",
            Self::Unavailable(_) => "Unavailable",
            Self::Protocol(_) => "Protocol",
            Self::Duplicates(_) => "Duplicates",
            Self::Sick => "Sick",
            Self::Ended(_) => "Ended",
            Self::Lost(_) => "Lost",
            Self::Unstarted(_) => "Unstarted",
            Self::Input(_) => "Input",
            Self::Output(_) => "Output",
            Self::Refused { error, .. } => error.code().name(),
        }
    }

    /// The error as JSON; `line` is the line of standard input that is wrong.
    fn json(&self, line: Option<u64>) -> String {
        let message = &self.to_string();
        let (code, retry_after_ms) = match self {
            Self::Refused { error, .. } => {
                (Some(error.code), Some(error.retry_after_ms).filter(|after| *after > 0))
            }
            _ => (None, None),
        };
        let (name, exit_status) = (self.name(), self.code());
        let view = ErrorView { code, name, message, retry_after_ms, exit_status, line };
        // Numbers and text always have a JSON form.
        serde_json::to_string(&view).unwrap_or_default()
    }

    /// What to print on stderr, without the end of the line.
    pub(crate) fn message(&self, form: ErrorForm, line: Option<u64>) -> String {
        match (form, line) {
            (ErrorForm::Json, _) => self.json(line),
            (ErrorForm::Text, Some(line)) => format!("leafctl: line {line}: {self}"),
            (ErrorForm::Text, None) => format!("leafctl: {self}"),
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
pub(crate) fn status(result: Result<(), Failure>, form: ErrorForm) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // `leafctl next … | head`: the reader has stopped reading, which is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure @ (Failure::Sick | Failure::Ended(_))) => ExitCode::from(failure.code()),
        Err(failure) => {
            complain(&failure.message(form, None));
            ExitCode::from(failure.code())
        }
    }
}

/// Prints clap's message. Help goes to stdout and is no error.
pub(crate) fn of_clap(error: &clap::Error, form: ErrorForm) -> ExitCode {
    if form == ErrorForm::Json && error.use_stderr() {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        return status(Err(Failure::Usage(text.to_owned())), form);
    }
    match error.print() {
        Err(error) => status(Err(Failure::Output(error)), form),
        Ok(()) if error.use_stderr() => ExitCode::from(USAGE),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// How long the end waits for a reader of stderr, if it does not wait for ever.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a reader of stderr that does not read delays the exit.
static WAITS: AtomicBool = AtomicBool::new(true);

/// From now on, the exit status matters more than the last message.
pub(crate) fn do_not_wait_for_readers() {
    WAITS.store(false, Ordering::Relaxed);
}

fn complain(text: &str) {
    let text = format!("{text}\n");
    if WAITS.load(Ordering::Relaxed) {
        // If even stderr is closed, the exit status still says it.
        let _ = io::stderr().write_all(text.as_bytes());
    } else {
        write_in_time(text);
    }
}

/// Writes a text to stderr, unless nobody reads it in time.
pub(crate) fn write_in_time(text: String) {
    let (tell, done) = sync_channel(1);
    let fallback = text.clone();
    let spawned = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(text.as_bytes());
        let _ = tell.send(());
    });
    match spawned {
        Ok(_) => drop(done.recv_timeout(PATIENCE)),
        Err(_) => drop(io::stderr().write_all(fallback.as_bytes())),
    }
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
        assert_eq!(Failure::Ended(143).code(), 143);
        assert_eq!(Failure::Lost(String::new()).code(), 75);
        assert_eq!(Failure::Unstarted(String::new()).code(), 125);
    }

    #[test]
    fn as_json_an_error_has_leafds_number_and_name_or_leafctls_name() {
        let refusal = WireError::new(ErrorCode::StoreUnavailable, "no \"store\"\n");
        let failure = Failure::refused(&refusal.with_retry_after_ms(1500));
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let mut error = json(&failure.message(ErrorForm::Json, None));
        let message = error["message"].take();
        assert!(
            message.as_str().unwrap().ends_with("StoreUnavailable: no \"store\"\n"),
            "{message}"
        );
        let fields = r#"{"code":302,"name":"StoreUnavailable","message":null,
            "retry_after_ms":1500,"exit_status":69}"#;
        assert_eq!(error, json(fields));
        let failure = Failure::Usage("not an ID".to_owned());
        assert_eq!(
            failure.message(ErrorForm::Json, Some(7)),
            r#"{"code":null,"name":"Usage","message":"not an ID","retry_after_ms":null,"exit_status":64,"line":7}"#
        );
        assert_eq!(failure.message(ErrorForm::Text, Some(7)), "leafctl: line 7: not an ID");
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
