//! Accepts and admits connections. No error of one connection ends the loop, nor does a lack of
//! descriptors.

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
use super::credentials::user_of;
use super::server::UnixServer;
use crate::access::principal::Principal;
use crate::service::session::Session;
use crate::tally::CallKind;
use crate::transport::greeting::{refusal, too_many_connections};
use crate::transport::throttle::{ACCEPT_PAUSE, LogThrottle};

/// Accepts until `stop`, then makes the connections say goodbye. Every connection is a task of
/// `connections` on the runtime `serving`. Run this in the runtime with timers. If a defect ends the
/// rounds, in which users take turns, leafd would serve nobody any more, so this cancels `fatal`.
pub(super) async fn accept(
    listener: AsyncFd<UnixListener>,
    server: Arc<UnixServer>,
    serving: Handle,
    connections: TaskTracker,
    stop: CancellationToken,
    fatal: CancellationToken,
) {
    let watching = tokio::spawn(watch_timers(Arc::clone(&server), stop.clone()));
    // Connections need the rounds to the last, so these end with the thread that serves.
    let rounds = Arc::clone(&server);
    let mut rounds = serving.spawn(async move { rounds.turns.run().await });
    tokio::select! {
        () = accept_all(&listener, &server, &serving, &connections, &stop) => {}
        _ = &mut rounds => return fatal.cancel(),
    }
    server.timers.stop();
    let _ = watching.await;
}

/// Wakes connections whose time has come.
async fn watch_timers(server: Arc<UnixServer>, stop: CancellationToken) {
    let interval = || {
        let limits = server.limits();
        let shortest = limits.idle_timeout.min(limits.request_timeout).min(limits.write_timeout);
        // Precise enough: these timeouts only get rid of clients that are silent or do not read.
        (shortest / 4).clamp(Duration::from_millis(25), Duration::from_secs(1))
    };
    server.timers.clone().watch(&server.service.environment, interval, stop).await;
}

async fn accept_all(
    listener: &AsyncFd<UnixListener>,
    server: &Arc<UnixServer>,
    serving: &Handle,
    connections: &TaskTracker,
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
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let limits = server.limits();
        let limit = limits.max_connections;
        if server.timers.count() >= limit {
            if log.may_log(server.service.environment.now()) {
                let error = ErrorCode::TooManyConnections;
                tracing::warn!(limit, %error, "refusing connections (socket.max-connections)");
            }
            server.service.counts.refused(CallKind::Connect, ErrorCode::TooManyConnections);
            refuse(server, stream, &too_many_connections(limit, "socket.max-connections"));
            continue;
        }
        let session = match admit(server, &stream) {
            Ok(session) => session,
            Err(refused) => {
                refuse(server, stream, &refusal(refused));
                continue;
            }
        };
        // From here on the connection counts.
        let now = server.service.environment.now();
        let timer = server.timers.add(now, limits.request_timeout);
        let server = Arc::clone(server);
        let serve = async move {
            // Here, since the socket must be registered with the runtime that serves.
            match Connection::new(stream, timer, session, server) {
                Ok(connection) => connection.serve().await,
                Err(error) => tracing::warn!("cannot serve a connection: {error}"),
            }
        };
        connections.spawn_on(serve, serving);
    }
}

/// Admits the caller behind `stream`, if the kernel tells who that is and the rules allow it.
fn admit(server: &UnixServer, stream: &UnixStream) -> Result<Session, WireError> {
    let user = user_of(stream.as_fd()).map_err(|error| {
        tracing::error!("the kernel does not tell who has connected: {error}");
        let text = format!("the kernel does not tell who has connected: {error}");
        WireError::new(ErrorCode::Forbidden, text)
    })?;
    Session::begin(&server.service, Principal::Local(user))
}

fn refuse(server: &UnixServer, mut stream: UnixStream, why: &[u8]) {
    // A new socket has room for an error. If not, the client only sees the connection close.
    let written = stream.set_nonblocking(true).and_then(|()| stream.write_all(why));
    if written.is_ok() {
        server.lingering.end(stream);
    }
}
