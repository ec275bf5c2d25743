//! Stops what runs, in the reverse order of its building.

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

/// What takes connections and serves them.
pub(super) struct Accepting {
    pub(super) socket: Socket,
    /// The loop that accepts. It goes on until `stop`, unless it panics.
    pub(super) task: JoinHandle<()>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// Ends the connections, then segments and snowflakes. `grace` is what each of the two may take.
pub(super) async fn stop(
    daemon: Daemon,
    accepting: Accepting,
    grace: Duration,
) -> Result<(), Failure> {
    let orderly = async {
        // First out of the way, so that a client that connects again meets the successor.
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
    // A disk or a store that hangs must not hold up the end.
    let outcome = timeout(grace * 2 + LAST_WRITE, orderly).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the disk or the store has not answered".into()));
    outcome.map_err(|error| {
        Failure::state("the last state could not be written; nothing will be repeated", &error)
    })
}
