//! Ctrl-C ends a run early instead of throwing its figures away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Status of a process that a second Ctrl-C ends, as shells count it.
const KILLED: i32 = 130;

/// The flag that the first SIGINT or SIGTERM sets; the second ends the process. Where signals
/// cannot be waited for they keep their usual meaning.
pub(super) fn flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Blocked here, so that they are blocked in the thread as well and `wait` gets them.
    if signals.thread_block().is_ok() {
        let set = Arc::clone(&stop);
        let waiter = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while signals.wait().is_ok() {
                if set.swap(true, Ordering::Relaxed) {
                    std::process::exit(KILLED);
                }
            }
        });
        if waiter.is_err() {
            let _ = signals.thread_unblock();
        }
    }
    stop
}
