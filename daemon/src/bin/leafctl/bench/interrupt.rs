//! Ctrl-C ends a run early but keeps its figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Exit status after a second Ctrl-C, as shells report it.
const KILLED: i32 = 130;

/// Returns a flag that the first SIGINT or SIGTERM sets; the second one ends the process. If no
/// thread can wait for the signals, they keep their usual meaning.
pub(super) fn flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // The new thread inherits the block; only then does `wait` receive the signals.
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
