//! Takes connections within bounds. Nothing that goes wrong with one of them, or with the process'
//! descriptors, ends the loop.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::Connection;
use super::credentials::principal_of;
use super::server::UnixServer;
use crate::service::Service;
use crate::service::session::Session;
use crate::transport::greeting::{no_room, not_let_in};
use crate::transport::throttle::{LogThrottle, PAUSE};

/// Accepts until `stop`, and then has the connections say goodbye; every connection is a task of
/// `tasks` on the runtime `serving`. Itself it needs a runtime with timers.
pub async fn accept(
    listener: AsyncFd<UnixListener>,
    service: Arc<Service>,
    serving: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let server = Arc::new(UnixServer::new(service));
    let watching = tokio::spawn(watch(Arc::clone(&server), stop.clone()));
    // Connections need it to the last, so it ends with the thread that serves.
    let rounds = Arc::clone(&server);
    let mut rounds = serving.spawn(async move { rounds.turns.run().await });
    tokio::select! {
        () = accept_all(&listener, &server, &serving, &tasks, &stop) => {}
        // By a defect. Nobody would be served any more, so this ends the daemon.
        _ = &mut rounds => return,
    }
    server.timers.stop();
    let _ = watching.await;
}

/// Wakes connections whose time has come.
async fn watch(server: Arc<UnixServer>, stop: CancellationToken) {
    let interval = || {
        let limits = server.service.terms().terms.limits;
        let shortest = limits.idle_timeout.min(limits.request_timeout).min(limits.write_timeout);
        // Precise enough for limits that are there to get rid of somebody.
        (shortest / 4).clamp(Duration::from_millis(25), Duration::from_secs(1))
    };
    server.timers.clone().watch(&server.service.environment, interval, stop).await;
}

async fn accept_all(
    listener: &AsyncFd<UnixListener>,
    server: &Arc<UnixServer>,
    serving: &Handle,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let mut log = LogThrottle::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.async_io(Interest::READABLE, UnixListener::accept) => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if log.may_log(server.service.environment.now()) {
                    tracing::warn!("cannot accept a connection, going on: {error}");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let limits = server.service.terms().terms.limits;
        let limit = limits.max_connections;
        if server.timers.count() >= limit {
            if log.may_log(server.service.environment.now()) {
                tracing::warn!(limit, "refusing connections (socket.max-connections)");
            }
            refuse(server, stream, &no_room(limit, "socket.max-connections"));
            continue;
        }
        let session = match admit(server, &stream) {
            Ok(session) => session,
            Err(refused) => {
                refuse(server, stream, &not_let_in(refused));
                continue;
            }
        };
        // Counted from here on.
        let now = server.service.environment.now();
        let listed = server.timers.add(now, limits.request_timeout);
        let server = Arc::clone(server);
        let serve = async move {
            // In here, since it belongs to the runtime that serves.
            match Connection::new(stream, listed, session, server) {
                Ok(connection) => connection.serve().await,
                Err(error) => tracing::warn!("cannot serve a connection: {error}"),
            }
        };
        tasks.spawn_on(serve, serving);
    }
}

/// Lets in the caller that is connected to `stream`, if the kernel says who it is and the rules
/// allow it.
fn admit(server: &UnixServer, stream: &UnixStream) -> Result<Session, WireError> {
    let principal = principal_of(stream.as_fd()).map_err(|error| {
        tracing::error!("the kernel does not tell who has connected: {error}");
        let text = format!("the kernel does not tell who connects: {error}");
        WireError::new(ErrorCode::Forbidden, text)
    })?;
    Session::begin(&server.service, principal)
}

fn refuse(server: &UnixServer, mut stream: UnixStream, why: &[u8]) {
    // A new socket has room for it; if not, the close says enough.
    let told = stream.set_nonblocking(true).and_then(|()| stream.write_all(why));
    if told.is_ok() {
        server.lingering.end(stream);
    }
}
