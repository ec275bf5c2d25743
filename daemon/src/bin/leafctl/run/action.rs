//! What the core of `leafctl run` wants to have done, and how things end.

use leaf_client::Error;
use nix::sys::signal::Signal;

use super::hold::KnownLoan;

/// What has to be done, in order.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Ask leafd for a loan, or for more time.
    Ask(Option<KnownLoan>),
    /// Start the command.
    Start { worker: u64, bits: u32 },
    /// Send a signal to the command alone.
    Signal(Signal),
    /// Send SIGTERM to every process below leafctl.
    EndAll,
    /// Send SIGKILL to every process below leafctl.
    KillAll,
    /// Give the worker ID back. With `announces`, tell a leafd that has restarted of the loan first.
    Return { ceiling_unix_ms: u64, announces: bool },
    /// Print a line.
    Say(String),
    /// Exit.
    Finish(Outcome),
}

/// How leafctl ends.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// With this exit status.
    Status(u8),
    /// leafd lent nothing in time.
    Unavailable(String),
    /// leafd refused for good, before the command was started.
    Refused(Error),
    /// The worker ID could not be held.
    Lost(String),
    /// leafctl could not start the command.
    Unstarted(String),
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Exited(i32),
    Killed(Signal),
}

impl Ended {
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Killed(signal) => after_signal(signal),
        }
    }
}

/// The exit status that shells give a process which a signal ended.
pub(super) fn after_signal(signal: Signal) -> u8 {
    u8::try_from(128_i32.saturating_add(signal as i32)).unwrap_or(u8::MAX)
}
