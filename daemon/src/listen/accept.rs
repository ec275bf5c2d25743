//! Takes connections within bounds. Nothing that goes wrong with one of them, or with the process'
//! descriptors, ends the loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaf_client::wire::{ErrorCode, Reply, Response, UNSOLICITED, WireError, encode_response};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Service;
use super::connection::Connection;

/// How long to rest when the operating system has no descriptor left.
const REST: Duration = Duration::from_millis(50);

/// The same trouble is told once in so long.
const QUIET: Duration = Duration::from_secs(30);

/// Accepts until `stop`; every connection is a task of `tasks`.
pub async fn accept(
    listener: UnixListener,
    service: Arc<Service>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let mut last_told: Option<Instant> = None;
    let mut tell = move || {
        let quiet = last_told.is_some_and(|told| told.elapsed() < QUIET);
        if !quiet {
            last_told = Some(Instant::now());
        }
        !quiet
    };
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if tell() {
                    tracing::warn!("cannot accept a connection, going on: {error}");
                }
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let limit = service.limits.max_connections;
        if service.connections.load(Ordering::Relaxed) as usize >= limit {
            if tell() {
                tracing::warn!(limit, "refusing connections (socket.max-connections)");
            }
            refuse(&stream, limit);
            continue;
        }
        service.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection::new(stream, Arc::clone(&service), stop.clone());
        let counted = Counted(Arc::clone(&service));
        tasks.spawn(async move {
            let _counted = counted;
            connection.serve().await;
        });
    }
}

/// Counts a connection down, also when its task panics.
struct Counted(Arc<Service>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(stream: &UnixStream, limit: usize) {
    let text = format!("{limit} connections are open already (socket.max-connections)");
    let error = WireError::new(ErrorCode::TooManyConnections, text)
        .with_detail(limit as u64)
        .with_retry_after_ms(100);
    let mut out = Vec::new();
    encode_response(&Response { id: UNSOLICITED, reply: Reply::Error(error) }, &mut out);
    // A new socket has room for it; if not, the close says enough.
    let _ = stream.try_write(&out);
}
