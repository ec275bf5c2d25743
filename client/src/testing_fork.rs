//! Real forks for unit tests.

#![expect(unsafe_code, reason = "fork")]

use std::io::{Read, pipe};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// Runs `child` in a child process and returns its result. Panics if the child panics.
pub(crate) fn in_child(child: impl FnOnce() -> u64) -> u64 {
    let (mut result, sink) = pipe().unwrap();
    // SAFETY: the child runs only code that takes no lock of another thread: glibc makes its allocator
    // safe in the child, and the code under test takes none of its parent's locks.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let outcome = catch_unwind(AssertUnwindSafe(child));
            let written = outcome.map(|value| {
                let bytes = value.to_ne_bytes();
                nix::unistd::write(&sink, &bytes).is_ok_and(|len| len == bytes.len())
            });
            let status = i32::from(!matches!(written, Ok(true)));
            // SAFETY: ends the process at once, without the handlers of its parent.
            unsafe { nix::libc::_exit(status) }
        }
        ForkResult::Parent { child } => {
            drop(sink);
            let mut bytes = [0; 8];
            let read = result.read_exact(&mut bytes);
            let status = waitpid(child, None).unwrap();
            assert!(
                matches!(status, WaitStatus::Exited(_, 0)),
                "{status:?} {}",
                result.as_raw_fd()
            );
            read.unwrap();
            u64::from_ne_bytes(bytes)
        }
    }
}
