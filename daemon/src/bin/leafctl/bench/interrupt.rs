//! Ctrl-C ends a run early but keeps its figures, and deletes the tags that the run made. A second
//! one ends the deletion, a third one the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Exit status after the last Ctrl-C, as shells report it.
const KILLED: i32 = 130;

/// What an operator has interrupted.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// The run is to end.
    pub(super) run: AtomicBool,
    /// The deletion of its tags is to end as well.
    pub(super) deletion: AtomicBool,
}

/// Waits for SIGINT and SIGTERM in the background. If no thread can wait for the signals, they keep
/// their usual meaning.
pub(super) fn listen() -> Arc<Interrupts> {
    let stop = Arc::new(Interrupts::default());
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // The new thread inherits the block; only then does `wait` receive the signals.
    if signals.thread_block().is_ok() {
        let set = Arc::clone(&stop);
        let waiter = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while signals.wait().is_ok() {
                if set.run.swap(true, Ordering::Relaxed)
                    && set.deletion.swap(true, Ordering::Relaxed)
                {
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
