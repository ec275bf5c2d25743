//! The TCP port for other leafd daemons. It answers `Hello` and `Time` and nothing else, so that a
//! daemon that starts can compare its clock with theirs. Callers are unknown and not trusted: nobody
//! gets an ID here, or more than the limits below.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use leaf_client::wire::{
    Call, ErrorCode, Reply, Response, UNSOLICITED, WireError, encode_response,
};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::greeting::{Greeting, NumberedReply, too_many_connections};
use super::throttle::{ACCEPT_PAUSE, LogThrottle};
use crate::environment::Environment;
use crate::frame::{ReadError, read_frame};

/// Open connections. Each takes a descriptor.
pub(crate) const MAX_CONNECTIONS: usize = 1024;

/// Bytes of one request: `Hello` has 18. Most calls that belong on the Unix socket fit as well, so
/// that the answer can say where they belong.
const MAX_REQUEST: usize = 256;

/// Connections that the kernel queues until leafd accepts them.
const BACKLOG: u32 = 1024;

/// Limits on what callers can make leafd hold.
#[derive(Debug, Clone, Copy)]
struct PeerLimits {
    /// Open at the same time.
    connections: usize,
    /// From the connect to the end of the answer to the hello.
    hello: Duration,
    /// From the end of one answer to the end of the next.
    request: Duration,
    /// On one connection, the hello included.
    requests: u32,
}

const LIMITS: PeerLimits = PeerLimits {
    connections: MAX_CONNECTIONS,
    hello: Duration::from_secs(5),
    request: Duration::from_secs(10),
    requests: 64,
};

/// The peer port, which listens.
#[derive(Debug)]
pub(crate) struct PeerListener {
    listener: TcpListener,
    limits: PeerLimits,
}

impl PeerListener {
    /// Listens at `address`. Call this in a runtime with timers. Connections of a predecessor that
    /// the kernel still remembers do not keep the port in use.
    ///
    /// # Errors
    /// When the operating system refuses, usually because the port is in use.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { listener: socket.listen(BACKLOG)?, limits: LIMITS })
    }

    /// Uses a non-blocking socket that already listens. Call this in a runtime with timers.
    ///
    /// # Errors
    /// When the event queue does not take it.
    pub(crate) fn inherited(listener: std::net::TcpListener) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::from_std(listener)?, limits: LIMITS })
    }

    /// Where it listens. If the configuration says port 0, this has the port that the system chose.
    ///
    /// # Errors
    /// When the operating system does not tell.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, which ends all connections.
    pub(crate) async fn serve(self, environment: Environment, stop: CancellationToken) {
        let accept = || async { self.listener.accept().await.map(|(stream, _)| stream) };
        tokio::select! {
            () = stop.cancelled() => {}
            () = accept_all(accept, self.limits, &environment) => {}
        }
    }
}

/// Never ends, whatever `accept` returns. Dropping it drops the connections.
async fn accept_all<F>(accept: impl Fn() -> F, limits: PeerLimits, environment: &Environment)
where
    F: Future<Output = io::Result<TcpStream>>,
{
    let mut log = LogThrottle::default();
    let mut open = JoinSet::new();
    loop {
        let stream = match accept().await {
            Ok(stream) => stream,
            Err(error) => {
                if log.may_log(environment.now()) {
                    tracing::warn!(
                        "cannot accept a connection on the peer port, going on: {error}"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while open.try_join_next().is_some() {}
        let limit = limits.connections;
        if open.len() >= limit {
            if log.may_log(environment.now()) {
                let error = ErrorCode::TooManyConnections;
                tracing::warn!(limit, %error, "refusing connections on the peer port");
            }
            // A new socket has room for an error. If not, the client only sees the connection close.
            let _ = stream.try_write(&too_many_connections(limit, "of the peer port"));
            continue;
        }
        open.spawn(serve_one(stream, limits, environment.clone()));
    }
}

async fn serve_one(mut stream: TcpStream, limits: PeerLimits, environment: Environment) {
    // If this fails, answers are only a little late.
    let _ = stream.set_nodelay(true);
    let mut greeting = Greeting::new(0, limits.requests);
    let mut allowed = limits.hello;
    for _ in 0..limits.requests {
        // One timeout for reading and writing together: a client gains no time by sending a byte now
        // and then, or by not reading.
        let exchanged = timeout(allowed, exchange(&mut stream, &mut greeting, &environment)).await;
        if !matches!(exchanged, Ok(Ok(true))) {
            return;
        }
        allowed = limits.request;
    }
}

/// Reads one request and answers it. Returns whether the connection stays open.
async fn exchange(
    stream: &mut TcpStream,
    greeting: &mut Greeting,
    environment: &Environment,
) -> io::Result<bool> {
    let NumberedReply { id, reply, keep_open } = match read_frame(stream, MAX_REQUEST).await {
        Ok(body) => answer(&body, greeting, environment),
        Err(ReadError::TooLong(error)) => {
            let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string())
                .with_detail(MAX_REQUEST as u64);
            NumberedReply { id: UNSOLICITED, reply: Reply::Error(error), keep_open: false }
        }
        Err(ReadError::Io(error)) => return Err(error),
    };
    let mut out = Vec::new();
    encode_response(&Response { id, reply }, &mut out);
    stream.write_all(&out).await?;
    Ok(keep_open)
}

fn answer(body: &[u8], greeting: &mut Greeting, environment: &Environment) -> NumberedReply {
    match greeting.open(body) {
        Ok(request) => {
            let reply = match request.call {
                Call::Time => Reply::Time { unix_ms: environment.unix_ms() },
                _ => {
                    let text = "the peer port answers Hello and Time only; ask for IDs on the \
                                Unix socket";
                    Reply::Error(WireError::new(ErrorCode::Forbidden, text))
                }
            };
            NumberedReply { id: request.id, reply, keep_open: true }
        }
        Err(answer) => *answer,
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
