//! Accepts connections. No error of one connection ends the loop, nor does a lack of descriptors.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::HttpCaller;
use super::connection::serve;
use super::peer::HttpPeer;
use super::roster::{HttpConnection, PlaceKind};
use super::server::HttpServer;
use super::stream::{HttpSocket, HttpStream};
use crate::access::principal::{HTTP, HttpOrigin, LocalUser, Principal};
use crate::transport::throttle::{ACCEPT_PAUSE, LogThrottle};
use crate::transport::unix::credentials::user_of;

/// A socket that listens for HTTP, registered with the runtime that serves it.
#[derive(Debug)]
pub(super) enum HttpListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl HttpListener {
    /// Accepts a connection, and says who is behind it.
    async fn accept(&self) -> io::Result<(HttpSocket, HttpPeer, Principal)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // If this fails, answers are only a little late.
                let _ = stream.set_nodelay(true);
                let principal = Principal::Http(HttpOrigin::Address(address));
                Ok((HttpSocket::Tcp(stream), HttpPeer::at(address.ip()), principal))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                // If the kernel does not tell who it is, it is nobody in particular.
                let (peer, principal) = match user_of(stream.as_fd()) {
                    Ok(user) => {
                        let user = LocalUser { transport: HTTP, ..user };
                        (HttpPeer::User(user.uid), Principal::Local(user))
                    }
                    Err(_) => (HttpPeer::Unknown, Principal::Http(HttpOrigin::Unknown)),
                };
                Ok((HttpSocket::Unix(stream), peer, principal))
            }
        }
    }
}

/// Accepts until `stop`. Every connection is a task of `connections`. Run this on the thread that
/// serves.
pub(super) async fn accept(
    listener: HttpListener,
    server: Arc<HttpServer>,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    let mut log = LogThrottle::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer, principal) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if log.may_log(server.clock.now()) {
                    tracing::warn!("cannot accept an HTTP connection, going on: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let state = Arc::new(HttpConnection::new(server.clock.ms()));
        let stream = HttpStream::new(socket, Arc::clone(&state), server.clock.clone());
        let limit = server.limits().max_connections;
        let place = server.roster.admit(&state, peer, limit);
        if place.as_ref().is_none_or(|place| place.kind == PlaceKind::Reserve)
            && log.may_log(server.clock.now())
        {
            tracing::warn!(
                limit,
                "all HTTP connections are busy; serving new ones only probes (http.max-connections)"
            );
        }
        let Some(place) = place else {
            server.busy.add(1);
            continue;
        };
        let caller = HttpCaller::new(Arc::clone(&server.service), principal);
        let (key, kind, serving) = (place.key, place.kind, Arc::clone(&server));
        let task = connections.spawn_on(
            async move {
                serve(stream, serving, state, caller, kind).await;
                drop(place);
            },
            &Handle::current(),
        );
        server.roster.set_task(kind, key, task.abort_handle());
        if kind == PlaceKind::Reserve {
            // A flood must not end it before leafd has read its request.
            yield_now().await;
        }
    }
}
