//! Standard output as it was given. Rust opens /dev/null where the parent gave none, so that writing
//! succeeds and `leafctl next orders >&-` would lose an ID and report success.

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed before Rust looked at it.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

#[expect(unsafe_code, reason = "Rust has replaced a closed descriptor before main begins")]
extern "C" fn look() {
    // SAFETY: it reads a number of the descriptor and touches no memory.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// The loader calls it before main.
#[expect(unsafe_code, reason = "the section holds pointers to functions of this kind")]
#[used]
// SAFETY: the section is an array of pointers to functions without a result.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Standard output, locked; writing fails if there is none.
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
