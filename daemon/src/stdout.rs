//! Standard output that fails if it was closed. Rust opens /dev/null in place of a closed standard
//! output, so `leafctl next orders >&-` would lose an ID and report success.

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed before Rust looked at it.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

#[expect(unsafe_code, reason = "Rust replaces a closed descriptor before main begins")]
extern "C" fn look() {
    // SAFETY: this reads the descriptor's flags and touches no memory.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// The loader calls this before main.
#[expect(unsafe_code, reason = "the section holds pointers to functions of this type")]
#[used]
// SAFETY: the section is an array of pointers to functions without a result.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Locked standard output; writing fails if it was closed.
#[derive(Debug)]
pub struct Stdout(StdoutLock<'static>);

/// Locks standard output.
#[must_use]
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

fn is_open() -> io::Result<()> {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(()),
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        is_open()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
