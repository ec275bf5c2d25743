//! Signals: which leafctl takes over from the system, which of them it passes on, and when it stops
//! itself together with the command. The decisions are pure; [`Signals`] reads the descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::signal::unix::{SignalKind, signal};

use super::moment::Moment;

/// Signals that leafctl takes over, if its parent has not told it to ignore them.
const TAKEN: [Signal; 15] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGCONT,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// `si_code` of a signal that the kernel sends: of these, for what happened at the terminal.
const SI_KERNEL: i32 = 0x80;

/// A signal that leafctl received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) signal: Signal,
    /// The terminal sent it to the whole process group.
    pub(super) is_from_terminal: bool,
}

impl Heard {
    fn new(signal: Signal, code: i32) -> Self {
        // Not a hangup: of a session's processes, only the leader hears of it.
        let of_terminal = matches!(
            signal,
            Signal::SIGINT
                | Signal::SIGQUIT
                | Signal::SIGCONT
                | Signal::SIGWINCH
                | Signal::SIGTSTP
                | Signal::SIGTTIN
                | Signal::SIGTTOU
        );
        Self { signal, is_from_terminal: of_terminal && code == SI_KERNEL }
    }

    fn is_stop(self) -> bool {
        matches!(self.signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU)
    }
}

/// How long a command may take to stop for the terminal. One that has not stopped by then goes on.
const STOP_MS: u64 = 5000;

/// Follows what the terminal does to the process group. Signals and the command's stops are seen in
/// any order.
#[derive(Debug, Default)]
pub(super) struct JobControl {
    /// When the terminal stopped the group. leafctl goes on until the command has stopped, too: the
    /// shell takes the terminal back when leafctl stops.
    stopping_since_ms: Option<u64>,
    is_command_stopped: bool,
}

impl JobControl {
    /// Whether to pass the signal on to the command, which may be in leafctl's process group.
    pub(super) fn passes_on(&mut self, heard: Heard, is_in_group: bool, now: Moment) -> bool {
        if heard.is_from_terminal && heard.is_stop() {
            self.stopping_since_ms = is_in_group.then_some(now.boot_ms);
        } else if heard.signal == Signal::SIGCONT {
            self.stopping_since_ms = None;
        }
        !(heard.is_from_terminal && is_in_group)
    }

    /// The command has stopped, or goes on.
    pub(super) fn command_stopped(&mut self, is_stopped: bool) {
        self.is_command_stopped = is_stopped;
    }

    /// Whether leafctl has to stop itself now. A command that somebody else stopped, and only it,
    /// stops nobody: leafctl has to keep the loan and the deadline.
    pub(super) fn stops(&mut self, has_command: bool, now: Moment) -> bool {
        let since = self.stopping_since_ms;
        self.stopping_since_ms = since.filter(|since| now.boot_ms <= since.saturating_add(STOP_MS));
        let is_ready = self.is_command_stopped || !has_command;
        is_ready && self.stopping_since_ms.take().is_some()
    }
}

/// The signals that leafctl reads from a descriptor.
#[derive(Debug)]
pub(super) struct Signals {
    descriptor: SignalFd,
    /// Those that leafctl has blocked, and that the command must not find blocked.
    blocked: Vec<Signal>,
}

impl Signals {
    /// Takes the signals over. Call it before any thread starts: threads inherit what is blocked.
    ///
    /// # Errors
    /// When the system has no descriptor left, or no `/proc`.
    pub(super) fn take_over() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let ignored = ignored(&status).ok_or(io::ErrorKind::InvalidData)?;
        if is_in(ignored, Signal::SIGCHLD) {
            notice_children()?;
        }
        let mut set: SigSet = TAKEN.into_iter().filter(|taken| !is_in(ignored, *taken)).collect();
        set.add(Signal::SIGCHLD);
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let descriptor = SignalFd::with_flags(&set, flags)?;
        let blocked = set.iter().filter(|signal| !before.contains(*signal)).collect();
        Ok(Self { descriptor, blocked })
    }

    /// The next signal other than `SIGCHLD`.
    pub(super) fn next(&self) -> Option<Heard> {
        loop {
            // What cannot be read comes again.
            let info = self.descriptor.read_signal().ok()??;
            let Ok(number) = i32::try_from(info.ssi_signo) else { continue };
            match Signal::try_from(number) {
                Ok(Signal::SIGCHLD) | Err(_) => {}
                Ok(signal) => return Some(Heard::new(signal, info.ssi_code)),
            }
        }
    }

    /// The signals that the command has to unblock, as [`unblock`] reads them.
    pub(super) fn blocked(&self) -> String {
        let numbers = self.blocked.iter().map(|signal| (*signal as i32).to_string());
        numbers.collect::<Vec<_>>().join(",")
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Unblocks the signals with these numbers in this thread.
///
/// # Errors
/// When the system refuses.
pub(super) fn unblock(numbers: &str) -> io::Result<()> {
    let numbers = numbers.split(',').filter_map(|number| number.parse().ok());
    let set: SigSet = numbers.filter_map(|number: i32| Signal::try_from(number).ok()).collect();
    Ok(set.thread_unblock()?)
}

/// The signals that `/proc/self/status` says are ignored, as bits.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn is_in(bits: u64, signal: Signal) -> bool {
    let at = u32::try_from(signal as i32).unwrap_or(0).saturating_sub(1);
    bits.checked_shr(at).unwrap_or(0) & 1 == 1
}

/// If a parent has told leafctl to ignore `SIGCHLD`, the system throws exit statuses away. A handler
/// ends that; it is never called, because the signal is blocked.
fn notice_children() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    signal(SignalKind::child()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(signal: Signal) -> Heard {
        Heard::new(signal, SI_KERNEL)
    }

    fn sent(signal: Signal) -> Heard {
        Heard::new(signal, 0)
    }

    fn at(boot_ms: u64) -> Moment {
        Moment { boot_ms, unix_ms: 0 }
    }

    #[test]
    fn what_the_terminal_sent_to_the_group_is_not_sent_twice() {
        let mut jobs = JobControl::default();
        let mut passes = |heard, is_in_group| jobs.passes_on(heard, is_in_group, at(0));
        assert!(!passes(typed(Signal::SIGINT), true));
        assert!(passes(typed(Signal::SIGINT), false), "a command in a group of its own");
        assert!(passes(sent(Signal::SIGINT), true));
        assert!(passes(typed(Signal::SIGALRM), true), "a timer is no terminal");
        assert!(passes(sent(Signal::SIGTERM), true));
        assert!(passes(typed(Signal::SIGHUP), true), "only the leader of a session gets it");
    }

    #[test]
    fn leafctl_stops_with_the_command_in_whatever_order_it_hears_of_it() {
        for is_signal_first in [true, false] {
            let mut jobs = JobControl::default();
            if !is_signal_first {
                jobs.command_stopped(true);
                assert!(!jobs.stops(true, at(0)), "somebody may have stopped the command alone");
            }
            assert!(!jobs.passes_on(typed(Signal::SIGTSTP), true, at(0)));
            if is_signal_first {
                assert!(!jobs.stops(true, at(100)), "the command still handles it");
                jobs.command_stopped(true);
            }
            assert!(jobs.stops(true, at(200)));
            assert!(!jobs.stops(true, at(300)), "the shell has continued both");
        }
    }

    #[test]
    fn leafctl_does_not_stop_for_what_concerns_the_command_alone() {
        let mut jobs = JobControl::default();
        assert!(jobs.passes_on(sent(Signal::SIGTSTP), true, at(0)));
        jobs.command_stopped(true);
        assert!(!jobs.stops(true, at(0)), "somebody sent it to leafctl alone");
        jobs.command_stopped(false);

        jobs.passes_on(typed(Signal::SIGTSTP), true, at(0));
        jobs.passes_on(sent(Signal::SIGCONT), true, at(0));
        jobs.command_stopped(true);
        assert!(!jobs.stops(true, at(0)), "continued before the command had stopped");
        jobs.command_stopped(false);

        jobs.passes_on(typed(Signal::SIGTSTP), true, at(0));
        assert!(!jobs.stops(true, at(10_000)));
        jobs.command_stopped(true);
        assert!(!jobs.stops(true, at(10_000)), "the command had ignored the terminal");
    }

    #[test]
    fn without_a_command_leafctl_stops_at_once() {
        let mut jobs = JobControl::default();
        jobs.passes_on(typed(Signal::SIGTSTP), true, at(0));
        assert!(jobs.stops(false, at(0)));
    }

    #[test]
    fn ignored_signals_are_read_from_proc() {
        let bits =
            ignored("Name:\tx\nSigBlk:\t0\nSigIgn:\t0000000000011001\nSigCgt:\t4\n").unwrap();
        assert!(is_in(bits, Signal::SIGHUP) && is_in(bits, Signal::SIGCHLD));
        assert!(!is_in(bits, Signal::SIGINT) && !is_in(bits, Signal::SIGTERM));
        assert_eq!(ignored("Name:\tx\n"), None);
    }
}
