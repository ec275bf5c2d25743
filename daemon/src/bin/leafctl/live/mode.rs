//! The terminal's mode while leafctl redraws in place. Whatever ends leafctl short of SIGKILL, the
//! terminal is as before: a panic in any thread restores it too, before its message.

use std::io::{self, IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::sync::{Mutex, Once, PoisonError, TryLockError};

use nix::unistd::write;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Shows the alternate screen, which leaves the operator's shell as it was, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The full screen; dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct FullScreen {
    reads_keys: bool,
}

/// The terminal that a [`FullScreen`] took over, where a panic finds it.
static TAKEN: Mutex<Option<TakenTerminal>> = Mutex::new(None);

#[derive(Debug)]
struct TakenTerminal {
    input: OwnedFd,
    output: OwnedFd,
    /// The modes to restore; none if standard input is no terminal.
    before: Option<Termios>,
}

impl FullScreen {
    /// Takes over the screen and the keys. Ctrl-C and Ctrl-Z stay signals.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub(super) fn enter() -> io::Result<Self> {
        let (input, output) = (stdin(), stdout());
        Ok(Self::on(input.as_fd().try_clone_to_owned()?, output.as_fd().try_clone_to_owned()?))
    }

    fn on(input: OwnedFd, output: OwnedFd) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                next(info);
            }));
        });
        let before = input.is_terminal().then(|| tcgetattr(&input).ok()).flatten();
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let TakenTerminal { input, output, before } =
            taken.insert(TakenTerminal { input, output, before });
        if let Some(before) = before {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // If it fails, keys need Enter, and all else works.
            let _ = tcsetattr(input, OptionalActions::Now, &modes);
        }
        let _ = write(output, ENTER.as_bytes());
        Self { reads_keys: before.is_some() }
    }

    /// Whether keys come from this terminal.
    pub(super) const fn reads_keys(&self) -> bool {
        self.reads_keys
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Writes past the buffer, which is empty or belongs to a terminal that is gone. What the operator has
/// typed ahead is left to the shell.
fn restore() {
    let taken = match TAKEN.try_lock() {
        Ok(mut taken) => taken.take(),
        Err(TryLockError::Poisoned(taken)) => taken.into_inner().take(),
        // This thread panics while it takes or restores the terminal, or another one is at it.
        Err(TryLockError::WouldBlock) => None,
    };
    let Some(TakenTerminal { input, output, before }) = taken else { return };
    let _ = write(&output, LEAVE.as_bytes());
    if let Some(before) = &before {
        let _ = tcsetattr(&input, OptionalActions::Now, before);
    }
}

/// What draws these lines over whatever is on the screen.
pub(super) fn drawn(lines: &[String]) -> String {
    let mut text = "\x1b[H".to_owned();
    for (number, line) in lines.iter().enumerate() {
        // Erased before they are written: after a full line, erasing would take its last character.
        let is_last = number + 1 == lines.len();
        text.push_str(if is_last { "\x1b[J" } else { "\x1b[2K" });
        text.push_str(line);
        if !is_last {
            text.push_str("\r\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

    #[test]
    fn a_panic_in_any_thread_restores_the_terminal() {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let side = ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let local_modes = || tcgetattr(&side).unwrap().local_modes;
        let before = local_modes();
        let copy = || side.try_clone().unwrap();
        let full_screen = FullScreen::on(copy(), copy());
        assert!(full_screen.reads_keys() && local_modes() != before);
        let crashed = std::thread::spawn(|| panic!("a defect")).join();
        assert!(crashed.is_err());
        assert_eq!(local_modes(), before);
        let mut received = [0; 64];
        let count = nix::unistd::read(&controller, &mut received).unwrap();
        assert_eq!(std::str::from_utf8(&received[..count]), Ok(&*format!("{ENTER}{LEAVE}")));
        // It restores the terminal once: another program may have it by now.
        drop(full_screen);
        assert!(TAKEN.lock().unwrap().is_none());
    }
}
