//! What can happen while leafctl watches: answers, keys, signals, and an output that nobody reads any
//! more.

use std::io::{self, Read, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::read;

use super::mode::FullScreen;

/// The signals that leafctl waits for instead of being interrupted.
const SIGNALS: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// leafd answered, or did not in time.
    Answered,
    /// The terminal has another size.
    Resized,
    /// Ctrl-Z.
    Suspend,
    /// The operator typed this byte.
    Key(u8),
    /// The operator or the reader of the output has had enough.
    End,
}

/// Where events come from.
pub(super) struct Events {
    signals: SignalFd,
}

impl Events {
    /// Blocks the signals in this thread, and in those that it starts from now on.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        SIGNALS.into_iter().for_each(|signal| signals.add(signal));
        signals.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self { signals: SignalFd::with_flags(&signals, flags)? })
    }

    /// Waits for an event. Only on a full screen are keys read: elsewhere, standard input may belong
    /// to somebody else.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn wait(
        &mut self,
        mut bell: &UnixStream,
        full_screen: Option<&FullScreen>,
    ) -> io::Result<Event> {
        let reads_keys = full_screen.is_some_and(FullScreen::reads_keys);
        loop {
            let (input, output) = (stdin(), stdout());
            let key_flags = if reads_keys { PollFlags::POLLIN } else { PollFlags::empty() };
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(bell.as_fd(), PollFlags::POLLIN),
                // Without flags: it only tells that the reader has gone.
                PollFd::new(output.as_fd(), PollFlags::empty()),
                PollFd::new(input.as_fd(), key_flags),
            ];
            // Standard input may be a closed pipe, which would be ready all the time.
            let watched = if reads_keys { &mut ready[..] } else { ready.split_at_mut(3).0 };
            match poll(watched, PollTimeout::NONE) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
            let [signal, answer, gone, key] = ready.each_ref().map(is_ready);
            if gone {
                return Ok(Event::End);
            }
            if signal && let Some(event) = self.signal()? {
                return Ok(event);
            }
            if reads_keys
                && key
                && let Some(event) = Self::key()?
            {
                return Ok(event);
            }
            if answer {
                return match bell.read(&mut [0; 64])? {
                    0 => Err(io::Error::other("the thread that asks has ended")),
                    _ => Ok(Event::Answered),
                };
            }
        }
    }

    fn signal(&self) -> io::Result<Option<Event>> {
        let Some(signal) = self.signals.read_signal()? else { return Ok(None) };
        let signal =
            i32::try_from(signal.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        Ok(Some(match signal {
            Some(Signal::SIGWINCH) => Event::Resized,
            Some(Signal::SIGTSTP) => Event::Suspend,
            _ => Event::End,
        }))
    }

    /// The next byte that the operator typed, and no more: what follows the key that ends leafctl is
    /// for the shell.
    fn key() -> io::Result<Option<Event>> {
        let mut byte = [0];
        match read(stdin(), &mut byte) {
            // Nobody can type any more.
            Ok(0) => Ok(Some(Event::End)),
            Ok(_) => Ok(Some(Event::Key(u8::from_ne_bytes(byte)))),
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Stops this process as Ctrl-Z would, until the shell resumes it.
///
/// # Errors
/// Those of the system.
pub(super) fn suspend() -> io::Result<()> {
    // SIGTSTP is blocked, and has been received.
    Ok(raise(Signal::SIGSTOP)?)
}
