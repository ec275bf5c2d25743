//! Children of the test's process by a real `fork`, as the workers of a preforking server: they inherit
//! what the test has made, and send the runs of IDs that they got.

#![expect(unsafe_code, reason = "fork")]

use std::io::{PipeReader, Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// IDs in the order in which they came, kept as runs.
#[derive(Debug, Default)]
pub struct IdRuns(Vec<(u64, u64)>);

impl IdRuns {
    /// Adds an ID.
    pub fn push(&mut self, id: u64) {
        match self.0.last_mut() {
            Some((first, count)) if *first + *count == id => *count += 1,
            _ => self.0.push((id, 1)),
        }
    }

    /// The first ID and the number of each run.
    #[must_use]
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The number of IDs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

/// A child that works.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    runs: PipeReader,
}

impl Forked {
    /// Forks a child that does `work` and sends what that returns.
    ///
    /// # Panics
    /// If the process cannot fork.
    pub fn doing(work: impl FnOnce() -> IdRuns) -> Self {
        let (runs, mut sink) = pipe().expect("a pipe");
        // SAFETY: glibc makes its allocator safe in the child. What the child does beyond that takes no
        // lock of its parent's threads; the tests fail or hang where it does.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Child => {
                drop(runs);
                let sent = catch_unwind(AssertUnwindSafe(work)).is_ok_and(|ids| {
                    let pairs = ids.0.into_iter().flat_map(|(first, count)| [first, count]);
                    let bytes: Vec<u8> = pairs.flat_map(u64::to_ne_bytes).collect();
                    sink.write_all(&bytes).is_ok()
                });
                // SAFETY: ends the child without what its parent does at its end.
                unsafe { libc::_exit(i32::from(!sent)) }
            }
            ForkResult::Parent { child } => Self { pid: child, runs },
        }
    }

    /// Waits for the child's end, and returns its IDs.
    ///
    /// # Panics
    /// If the child has panicked or was killed.
    #[must_use]
    pub fn join(mut self) -> IdRuns {
        let mut bytes = Vec::new();
        self.runs.read_to_end(&mut bytes).expect("the child's IDs");
        let status = waitpid(self.pid, None).expect("the child");
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        let numbers: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        IdRuns(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }
}
