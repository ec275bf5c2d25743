//! Whether the kernel says that the clock is synchronised.

use std::io;

use crate::doctor::facts::{ClockFacts, Seen};

/// Asks the kernel. It takes the word of the program that sets the clock.
pub(super) fn look() -> Seen<ClockFacts> {
    match status() {
        Ok((state, status)) if state == libc::TIME_ERROR || status & libc::STA_UNSYNC != 0 => {
            Seen::As(ClockFacts::Free)
        }
        Ok(_) => Seen::As(ClockFacts::Synchronised),
        Err(error) => Seen::Not(format!("adjtimex: {error}")),
    }
}

/// The state of the clock and its flags. Without a mode, the call changes nothing.
#[expect(unsafe_code, reason = "no crate here wraps this call")]
fn status() -> io::Result<(libc::c_int, libc::c_int)> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to this structure alone, which is valid and lives long enough.
    match unsafe { libc::adjtimex(&raw mut timex) } {
        -1 => Err(io::Error::last_os_error()),
        state => Ok((state, timex.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_or_says_why_not() {
        match look() {
            Seen::As(_) => {}
            Seen::Not(why) => assert!(why.starts_with("adjtimex: "), "{why}"),
            Seen::Nothing => panic!("nothing"),
        }
    }
}
