//! The thread that serves: a runtime of its own with input and output and nothing else. It has no
//! timers; what needs one runs on the runtime of the main thread.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The running thread. Dropping it ends the thread and the connections that are left.
#[derive(Debug)]
pub struct Serving {
    handle: Handle,
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts the thread; `fatal` is cancelled when it breaks down.
    ///
    /// # Errors
    /// When the operating system gives no thread or no event queue.
    pub fn start(fatal: &CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let end = CancellationToken::new();
        let breakdown = fatal.clone().drop_guard();
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("leafd-serve".into()).spawn(move || {
            runtime.block_on(ended.cancelled());
            // It was not a panic that got here.
            drop(breakdown.disarm());
        })?;
        Ok(Self { handle, end, thread: Some(thread) })
    }

    /// Where connections are spawned.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// For whoever watches the thread.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe(self.handle.clone())
    }
}

/// Tells whether the thread works.
#[derive(Debug, Clone)]
pub struct Probe(Handle);

impl Probe {
    /// Hands the thread a task and waits until it has run, however long that takes; false when
    /// the thread has ended.
    pub async fn has_run_a_task(&self) -> bool {
        self.0.spawn(async {}).await.is_ok()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been told already, as fatal.
            let _ = thread.join();
        }
    }
}
