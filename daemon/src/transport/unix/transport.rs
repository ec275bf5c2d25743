//! The Unix socket as a transport: starts the thread that serves and the loop that accepts, and stops
//! both.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::Interest;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accept::accept;
use super::limits::{RELOADED, UnixLimits};
use super::server::UnixServer;
use super::socket::Socket;
use super::watched::watched;
use crate::config::Config;
use crate::service::Service;
use crate::supervise;
use crate::transport::lifecycle::{ThreadProbe, Transport};
use crate::transport::serving_thread::ServingThread;

/// Serves the Unix socket. Dropping it ends the connections that are left.
pub(crate) struct UnixTransport {
    socket: Socket,
    server: Arc<UnixServer>,
    /// The loop that accepts.
    accepting: TaskTracker,
    connections: TaskTracker,
    stop: CancellationToken,
    other_descriptors: u64,
    thread: ServingThread,
}

impl UnixTransport {
    /// Accepts connections on `socket` from now on, with the limits of `config`. The connections leave
    /// `other_descriptors` to the rest of the process. Call this in the runtime with timers. `fatal`
    /// is cancelled if a defect ends the thread or the loop.
    ///
    /// # Errors
    /// When the operating system gives no thread, descriptor or event queue.
    pub(crate) fn start(
        socket: Socket,
        config: &Config,
        other_descriptors: u64,
        service: &Arc<Service>,
        fatal: &CancellationToken,
    ) -> io::Result<Self> {
        let limits = UnixLimits::of(config, other_descriptors);
        let thread = ServingThread::start(fatal)?;
        let listener = watched(socket.listener.try_clone()?, Interest::READABLE)?;
        let server = Arc::new(UnixServer::new(Arc::clone(service), limits));
        let (accepting, connections) = (TaskTracker::new(), TaskTracker::new());
        let stop = CancellationToken::new();
        let run = accept(
            listener,
            Arc::clone(&server),
            thread.handle().clone(),
            connections.clone(),
            stop.clone(),
            fatal.clone(),
        );
        supervise::spawn("accept", fatal, accepting.track_future(run));
        Ok(Self { socket, server, accepting, connections, stop, other_descriptors, thread })
    }
}

impl Transport for UnixTransport {
    fn probe(&self) -> ThreadProbe {
        ThreadProbe::new(self.thread.handle())
    }

    fn reloaded_keys(&self) -> &'static [&'static str] {
        &RELOADED
    }

    fn reload(&self, config: &Config) {
        self.server.change_limits(UnixLimits::of(config, self.other_descriptors));
    }

    fn withdraw(&self) {
        self.socket.remove();
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        async move {
            self.stop.cancel();
            self.accepting.close();
            self.accepting.wait().await;
            self.connections.close();
            if timeout(grace, self.connections.wait()).await.is_err() {
                let open = self.connections.len();
                tracing::warn!(open, "connections did not end in time");
            }
        }
        .boxed()
    }
}
