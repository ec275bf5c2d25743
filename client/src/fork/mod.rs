//! Noticing that a process was forked: memory that the kernel clears in the child, and a number that
//! differs between a process and its children.
//!
//! A child inherits a copy of its parent's memory. What must not be used by both, such as IDs and
//! connections, therefore carries the number of its process, or lies in a page that is wiped.

mod page;
#[cfg(feature = "blocking")]
mod thread;

#[cfg(feature = "blocking")]
pub(crate) use page::{Wipeable, WipedPage};
#[cfg(feature = "blocking")]
pub(crate) use thread::start_thread;

use std::sync::atomic::{AtomicU64, Ordering};

use page::WipedNumber;

/// This process's number, 0 in a child until the child takes a number of its own.
static NUMBER: WipedNumber = WipedNumber::new();

/// The last number that this process or one of its ancestors has taken. A child inherits it, so its own
/// number is higher than those of all its ancestors.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Marks numbers that are process IDs, for kernels that cannot wipe a page.
const PROCESS_ID: u64 = 1 << 63;

/// Which process something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMark(u64);

impl ProcessMark {
    /// The mark of this process. Takes no lock, so it works in the child of a process whose other
    /// threads held some. A load and no system call, but on kernels before Linux 4.14.
    pub(crate) fn current() -> Self {
        match NUMBER.get().map(|number| number.load(Ordering::Relaxed)) {
            Some(number) if number != 0 => Self(number),
            _ => Self::take(),
        }
    }

    /// The number of the process.
    #[cfg(feature = "blocking")]
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// Whether this is the mark of the running process.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Gives this process a number, at its first use or after a fork.
    #[cold]
    fn take() -> Self {
        let Some(place) = NUMBER.get_or_map() else {
            return Self(PROCESS_ID | u64::from(std::process::id()));
        };
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        match place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Self(number),
            // Another thread was faster.
            Err(taken) => Self(taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing_fork::in_child;

    #[test]
    fn a_child_has_a_mark_of_its_own_and_a_grandchild_another_one() {
        let mine = ProcessMark::current();
        assert!(mine.is_current());
        let child = in_child(|| {
            let child = ProcessMark::current();
            let grandchild = in_child(|| ProcessMark::current().0);
            assert!(child != mine && child.is_current() && !mine.is_current());
            assert!(grandchild != child.0 && grandchild != mine.0);
            child.0
        });
        assert_ne!(child, mine.0);
        assert!(mine.is_current());
    }
}
