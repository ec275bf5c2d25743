//! Stops the daemon, in the reverse order of `build`.

use std::time::Duration;

use tokio::time::timeout;

use super::build::Daemon;
use super::failure::Failure;
use super::snowflake::LAST_WORDS;
use crate::transport::lifecycle::Transports;

/// How long the last writes may take.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Ends the connections, then segments and snowflakes. Each of the two steps may take `grace`.
pub(super) async fn stop(
    daemon: Daemon,
    transports: &Transports,
    grace: Duration,
) -> Result<(), Failure> {
    let orderly = async {
        // First, so that a client that reconnects reaches the next leafd.
        transports.withdraw();
        transports.stop(grace).await;
        let segments = daemon.segments.close(grace).await;
        // Each of the two may wait for a registry that hangs.
        let lending = daemon.lending.close(LAST_WORDS);
        let ((), snowflake) = tokio::join!(lending, daemon.snowflake.close());
        // Last, since only forecasts depend on it.
        daemon.rates.close().await;
        segments.and(snowflake)
    };
    // A disk or a store that hangs must not hold up the end.
    let outcome = timeout(grace * 2 + LAST_WRITE, orderly).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the disk or the store does not answer".into()));
    outcome.map_err(|error| {
        Failure::state("cannot write the last state; no ID will come twice", &error)
    })
}
