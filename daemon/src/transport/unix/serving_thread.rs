//! The thread that serves: a runtime of its own for input and output. It has no timers; what needs
//! one runs on the main thread.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The running thread. Dropping it ends the thread and the connections that are left.
#[derive(Debug)]
pub(crate) struct ServingThread {
    handle: Handle,
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ServingThread {
    /// Starts the thread. A panic there cancels `fatal`.
    ///
    /// # Errors
    /// When the operating system gives no thread or no event queue.
    pub(crate) fn start(fatal: &CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let end = CancellationToken::new();
        let cancel_on_panic = fatal.clone().drop_guard();
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("leafd-serve".into()).spawn(move || {
            runtime.block_on(ended.cancelled());
            drop(cancel_on_panic.disarm());
        })?;
        Ok(Self { handle, end, thread: Some(thread) })
    }

    /// Where connections are spawned.
    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there has already cancelled `fatal`.
            let _ = thread.join();
        }
    }
}
