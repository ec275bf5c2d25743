//! Threads that work until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running thread, which returns a `T` after [`Self::finish`]. Dropping this does not stop it.
#[derive(Debug)]
pub struct Background<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

/// What the thread looks at to learn that it should return.
#[derive(Debug, Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the thread should return.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread.
    #[must_use]
    pub fn start(work: impl FnOnce(Stop) -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Stop(Arc::clone(&stop));
        Self { stop, thread: std::thread::spawn(move || work(stopped)) }
    }

    /// Whether the thread has returned or panicked, which it does by itself only when it found a bug.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the thread. A panic of the thread goes on here.
    pub fn finish(self) -> T {
        self.try_finish().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Stops the thread; fails if the thread panicked.
    pub(crate) fn try_finish(self) -> std::thread::Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join()
    }
}

/// Does the same with each of them, in a thread of its own, and waits for all. A panic of one goes on here.
pub fn with_each<T: Send>(all: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in all {
            scope.spawn(|| work(one));
        }
    });
}

/// Tells the threads of a scope to stop when it is dropped, also when the test fails: the scope waits for
/// them.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
