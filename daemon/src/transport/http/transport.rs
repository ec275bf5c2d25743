//! HTTP as a transport: starts the thread that serves and a loop that accepts for each socket, and
//! stops both.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accept::{HttpListener, accept};
use super::forms::SnowflakeForms;
use super::limits::{HttpLimits, RELOADED};
use super::server::HttpServer;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::service::Service;
use crate::transport::lifecycle::{ThreadProbe, Transport};
use crate::transport::serving_thread::ServingThread;
use crate::transport::unix::socket::Socket;

/// Connections that the kernel queues until leafd accepts them.
const BACKLOG: i32 = 1024;

/// The sockets that listen for HTTP.
#[derive(Debug, Default)]
pub(crate) struct HttpSockets {
    /// Non-blocking.
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<Socket>,
}

impl HttpSockets {
    pub(crate) const fn is_on(&self) -> bool {
        self.tcp.is_some() || self.unix.is_some()
    }

    /// Removes the Unix socket from its path.
    pub(crate) fn remove(&self) {
        if let Some(unix) = &self.unix {
            unix.remove();
        }
    }
}

/// Listens at `address`. Connections of a predecessor that the kernel still remembers do not keep the
/// port in use.
///
/// # Errors
/// When the operating system refuses, usually because the port is in use.
pub(crate) fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made: OwnedFd = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&made), &SockaddrStorage::from(address))?;
    listen(&made, Backlog::new(BACKLOG)?)?;
    Ok(made.into())
}

/// Serves HTTP. Dropping it ends the connections that are left.
pub(crate) struct HttpTransport {
    unix: Option<Socket>,
    server: Arc<HttpServer>,
    accepting: TaskTracker,
    connections: TaskTracker,
    stop: CancellationToken,
    other_descriptors: u64,
    thread: ServingThread,
}

impl HttpTransport {
    /// Accepts connections on `sockets` from now on, with the limits of `config`. `applications`
    /// probes the thread of the Unix socket. `fatal` is cancelled if a defect ends the thread.
    ///
    /// # Errors
    /// When the operating system gives no thread, descriptor or event queue.
    pub(crate) fn start(
        sockets: HttpSockets,
        config: &Config,
        other_descriptors: u64,
        service: &Arc<Service>,
        applications: ThreadProbe,
        metrics: Metrics,
        fatal: &CancellationToken,
    ) -> io::Result<Self> {
        let limits = HttpLimits::of(config, other_descriptors);
        let thread = ServingThread::with_timers("leafd-http", fatal)?;
        let section = &config.snowflake;
        let snowflakes = SnowflakeForms {
            offered: section.enabled,
            layout: section.layout,
            fleet: section.fleet,
        };
        let service = Arc::clone(service);
        let metrics = Arc::new(metrics);
        let server = HttpServer::new(service, limits, applications, snowflakes, metrics);
        let server = Arc::new(server);
        let (accepting, connections) = (TaskTracker::new(), TaskTracker::new());
        let stop = CancellationToken::new();
        for listener in registered(&sockets, &thread)? {
            let (server, connections) = (Arc::clone(&server), connections.clone());
            let (stop, fatal) = (stop.clone(), fatal.clone());
            let run = async move {
                let defect = fatal.drop_guard();
                accept(listener, server, connections, stop).await;
                drop(defect.disarm());
            };
            accepting.spawn_on(run, thread.handle());
        }
        let unix = sockets.unix;
        Ok(Self { unix, server, accepting, connections, stop, other_descriptors, thread })
    }
}

/// The sockets, registered with the runtime of `thread`.
fn registered(sockets: &HttpSockets, thread: &ServingThread) -> io::Result<Vec<HttpListener>> {
    let _entered = thread.handle().enter();
    let mut listeners = Vec::new();
    if let Some(tcp) = &sockets.tcp {
        let tcp = tokio::net::TcpListener::from_std(tcp.try_clone()?)?;
        listeners.push(HttpListener::Tcp(tcp));
    }
    if let Some(unix) = &sockets.unix {
        let unix: UnixListener = unix.listener.try_clone()?;
        listeners.push(HttpListener::Unix(tokio::net::UnixListener::from_std(unix)?));
    }
    Ok(listeners)
}

impl Transport for HttpTransport {
    fn probe(&self) -> ThreadProbe {
        ThreadProbe::new(self.thread.handle())
    }

    fn reloaded_keys(&self) -> &'static [&'static str] {
        &RELOADED
    }

    fn reload(&self, config: &Config) {
        self.server.change_limits(HttpLimits::of(config, self.other_descriptors));
    }

    fn withdraw(&self) {
        if let Some(unix) = &self.unix {
            unix.remove();
        }
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        async move {
            self.stop.cancel();
            self.accepting.close();
            self.accepting.wait().await;
            self.server.stop();
            self.connections.close();
            if timeout(grace, self.connections.wait()).await.is_err() {
                let open = self.connections.len();
                tracing::warn!(open, "HTTP connections did not end in time");
            }
        }
        .boxed()
    }
}
