//! A thread that serves one transport: a runtime of its own for input and output.

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
    /// Starts the Unix socket's thread, which has no timers: they would cost each request. What needs
    /// one runs on the main thread. A panic there cancels `fatal`.
    ///
    /// # Errors
    /// When the operating system gives no thread or no event queue.
    pub(crate) fn start(fatal: &CancellationToken) -> io::Result<Self> {
        Self::run("leafd-serve", Builder::new_current_thread().enable_io(), fatal)
    }

    /// As [`Self::start`], with timers and another name.
    pub(crate) fn with_timers(name: &str, fatal: &CancellationToken) -> io::Result<Self> {
        Self::run(name, Builder::new_current_thread().enable_io().enable_time(), fatal)
    }

    fn run(name: &str, builder: &mut Builder, fatal: &CancellationToken) -> io::Result<Self> {
        let runtime = builder.build()?;
        let handle = runtime.handle().clone();
        let end = CancellationToken::new();
        let cancel_on_panic = fatal.clone().drop_guard();
        let ended = end.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
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
