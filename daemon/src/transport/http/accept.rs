//! Accepts connections. No error of one connection ends the loop, nor does a lack of descriptors.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use hyper::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::HttpCaller;
use super::connection::{linger, serve};
use super::problem::HttpProblem;
use super::roster::HttpConnection;
use super::server::HttpServer;
use super::stream::{HttpSocket, HttpStream};
use crate::access::principal::Principal;
use crate::transport::throttle::{ACCEPT_PAUSE, LogThrottle};
use crate::transport::unix::credentials::user_of;

/// A socket that listens for HTTP, registered with the runtime that serves it.
#[derive(Debug)]
pub(super) enum HttpListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Connections over the limit that are told so at the same time. leafd closes others without a word.
const MAX_REFUSING: usize = 16;

impl HttpListener {
    /// Accepts a connection, and says who is behind it.
    async fn accept(&self) -> io::Result<(HttpSocket, Principal)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // If this fails, answers are only a little late.
                let _ = stream.set_nodelay(true);
                Ok((HttpSocket::Tcp(stream), Principal::Http))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                // If the kernel does not tell who it is, it is nobody in particular.
                let user = user_of(stream.as_fd());
                let principal = user.map_or(Principal::Http, Principal::Local);
                Ok((HttpSocket::Unix(stream), principal))
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
    let refusing = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, principal) = match accepted {
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
        if !server.roster.make_room(limit) {
            if log.may_log(server.clock.now()) {
                tracing::warn!(limit, "refusing HTTP connections (http.max-connections)");
            }
            if refusing.len() < MAX_REFUSING {
                refusing.spawn(refuse(stream, limit));
            }
            continue;
        }
        let place = server.roster.add(&state);
        let caller = HttpCaller::new(Arc::clone(&server.service), principal);
        let (key, serving) = (place.key, Arc::clone(&server));
        let task = connections.spawn_on(
            async move {
                serve(stream, serving, state, caller).await;
                drop(place);
            },
            &Handle::current(),
        );
        server.roster.set_task(key, task.abort_handle());
    }
}

async fn refuse(mut stream: HttpStream, limit: usize) {
    let text = format!("{limit} connections are busy already (http.max-connections)");
    let problem = HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after_ms(1000);
    if stream.write_all(&problem.to_bytes()).await.is_ok() {
        linger(&mut stream).await;
    }
}
