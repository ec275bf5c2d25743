//! The port for other leafd daemons. It answers `Hello` and `Time` over TCP and nothing else, so
//! that a daemon that starts can compare its clock with those of the others. Who connects is not
//! known and not trusted: nobody gets an ID here, or more than the bounds below allow.

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

use super::greeting::{Answer, Greeting, no_room};
use super::throttle::{LogThrottle, PAUSE};
use crate::environment::Environment;
use crate::frame::{ReadError, read_frame};

/// Connections at once, each of which holds a descriptor.
pub const MAX_CONNECTIONS: usize = 1024;

/// Bytes of one request: `Hello` has 18. Most calls that belong on the Unix socket fit as well, and
/// are told so.
const MAX_REQUEST: usize = 256;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;

/// What one who connects may do.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    connections: usize,
    /// From the connection to the answer to its hello.
    first: Duration,
    /// From one answer to the next: for a whole request and for reading its answer.
    next: Duration,
    /// On one connection, the hello included.
    requests: u32,
}

const BOUNDS: Bounds = Bounds {
    connections: MAX_CONNECTIONS,
    first: Duration::from_secs(5),
    next: Duration::from_secs(10),
    requests: 64,
};

/// The peer port.
#[derive(Debug)]
pub struct PeerListener {
    listener: TcpListener,
    bounds: Bounds,
}

impl PeerListener {
    /// Listens at `address`, on the runtime that this is called in, which needs timers. Connections
    /// of a predecessor that are not quite over yet do not keep the port taken.
    ///
    /// # Errors
    /// When the operating system refuses, as a rule because somebody listens there.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { listener: socket.listen(BACKLOG)?, bounds: BOUNDS })
    }

    /// Goes on with a socket that listens already and is non-blocking, on the runtime that this is
    /// called in.
    ///
    /// # Errors
    /// When the event queue does not take it.
    pub fn inherited(listener: std::net::TcpListener) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::from_std(listener)?, bounds: BOUNDS })
    }

    /// Where it listens; with the port that the operating system chose when 0 was asked for.
    ///
    /// # Errors
    /// When the operating system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers with the time of `environment` until `stop`. Connections end with it.
    pub async fn serve(self, environment: Environment, stop: CancellationToken) {
        let accept = || async { self.listener.accept().await.map(|(stream, _)| stream) };
        tokio::select! {
            () = stop.cancelled() => {}
            () = accept_all(accept, self.bounds, &environment) => {}
        }
    }
}

/// Never ends, whatever `accept` says. When it is dropped, so are the connections.
async fn accept_all<F>(accept: impl Fn() -> F, bounds: Bounds, environment: &Environment)
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
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while open.try_join_next().is_some() {}
        let limit = bounds.connections;
        if open.len() >= limit {
            if log.may_log(environment.now()) {
                tracing::warn!(limit, "refusing connections on the peer port");
            }
            // A new socket has room for it; if not, the close says enough.
            let _ = stream.try_write(&no_room(limit, "of the peer port"));
            continue;
        }
        open.spawn(serve_one(stream, bounds, environment.clone()));
    }
}

async fn serve_one(mut stream: TcpStream, bounds: Bounds, environment: Environment) {
    // Without it the answer may be a little late, no more.
    let _ = stream.set_nodelay(true);
    let mut greeting = Greeting::new(0, bounds.requests);
    let mut allowed = bounds.first;
    for _ in 0..bounds.requests {
        // One limit for reading and writing together: neither who sends a byte now and then nor
        // who does not read stays longer.
        let exchanged = timeout(allowed, exchange(&mut stream, &mut greeting, &environment)).await;
        if !matches!(exchanged, Ok(Ok(true))) {
            return;
        }
        allowed = bounds.next;
    }
}

/// Reads one request and answers it. Says whether the connection goes on.
async fn exchange(
    stream: &mut TcpStream,
    greeting: &mut Greeting,
    environment: &Environment,
) -> io::Result<bool> {
    let Answer { id, reply, go_on } = match read_frame(stream, MAX_REQUEST).await {
        Ok(body) => answer(&body, greeting, environment),
        Err(ReadError::TooLong(error)) => {
            let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string())
                .with_detail(MAX_REQUEST as u64);
            Answer { id: UNSOLICITED, reply: Reply::Error(error), go_on: false }
        }
        Err(ReadError::Io(error)) => return Err(error),
    };
    let mut out = Vec::new();
    encode_response(&Response { id, reply }, &mut out);
    stream.write_all(&out).await?;
    Ok(go_on)
}

fn answer(body: &[u8], greeting: &mut Greeting, environment: &Environment) -> Answer {
    match greeting.open(body) {
        Ok(request) => {
            let reply = match request.call {
                Call::Time => Reply::Time { unix_ms: environment.unix_ms() },
                _ => {
                    let text = "the peer port answers Hello and Time only; IDs are given on the \
                                Unix socket";
                    Reply::Error(WireError::new(ErrorCode::Forbidden, text))
                }
            };
            Answer { id: request.id, reply, go_on: true }
        }
        Err(answer) => *answer,
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
