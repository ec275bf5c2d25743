//! Stops the daemon, in the reverse order of `build`.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::build::Daemon;
use super::failure::Failure;
use crate::transport::unix::socket::Socket;

/// How long the last writes may take.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The accept loop and the connections that it has accepted.
pub(super) struct Accepting {
    pub(super) socket: Socket,
    /// The accept loop. It ends only at `stop` or by a panic.
    pub(super) task: JoinHandle<()>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// Ends the connections, then segments and snowflakes. Each of the two steps may take `grace`.
pub(super) async fn stop(
    daemon: Daemon,
    accepting: Accepting,
    grace: Duration,
) -> Result<(), Failure> {
    let orderly = async {
        // Remove the socket first, so that a client that reconnects reaches the next leafd.
        accepting.socket.remove();
        accepting.stop.cancel();
        let _ = accepting.task.await;
        accepting.connections.close();
        if timeout(grace, accepting.connections.wait()).await.is_err() {
            let open = accepting.connections.len();
            tracing::warn!(open, "connections did not end in time");
        }
        let segments = daemon.segments.close(grace).await;
        let snowflake = daemon.snowflake.close().await;
        segments.and(snowflake)
    };
    // A disk or store that hangs must not block the stop.
    let outcome = timeout(grace * 2 + LAST_WRITE, orderly).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the disk or the store does not answer".into()));
    outcome.map_err(|error| {
        Failure::state("cannot write the last state; no ID will come twice", &error)
    })
}
