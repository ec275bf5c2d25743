//! The terminal's mode while leafctl redraws in place. Whatever ends leafctl short of SIGKILL, the
//! terminal is as before.

use std::io::{IsTerminal, stdin, stdout};

use nix::unistd::write;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Shows the alternate screen, which leaves the operator's shell as it was, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The full screen; dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct FullScreen {
    /// The modes to restore; none if standard input is no terminal.
    before: Option<Termios>,
}

impl FullScreen {
    /// Takes over the screen and the keys. Ctrl-C and Ctrl-Z stay signals.
    pub(super) fn enter() -> Self {
        let before = stdin().is_terminal().then(|| tcgetattr(stdin()).ok()).flatten();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // If it fails, keys need Enter, and all else works.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
        put(ENTER);
        Self { before }
    }

    /// Whether keys come from this terminal.
    pub(super) const fn reads_keys(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        put(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Writes past the buffer, which is empty or belongs to a terminal that is gone.
fn put(text: &str) {
    let _ = write(stdout(), text.as_bytes());
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
