//! Connections in, calls out. [`socket`] makes the listening socket, [`accept`] takes connections
//! within bounds, `connection` moves bytes, and `calls` and `administration` say what they
//! mean. [`peer`] is the port for other leafd daemons, and `hello` is how a connection begins on
//! either.

pub mod accept;
mod administration;
mod calls;
mod connection;
mod hello;
pub mod peer;
mod pulse;
mod scratch;
pub mod serving;
pub mod socket;
pub(crate) mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use leaf_client::wire::DaemonStatus;
use tokio::runtime::Handle;
use tokio::time::Instant;

use self::administration::Turns;
use self::pulse::Pulses;
use crate::clock::Clock;
use crate::segment::service::Segments;
use crate::snowflake::issuer::Issuer;
use crate::worker::admin::Workers;

/// Bounds on what connections may do.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once.
    pub max_connections: usize,
    /// Requests of one connection that wait.
    pub max_in_flight: usize,
    /// IDs in one request.
    pub max_count: u32,
    /// Bytes of one request.
    pub max_request_bytes: usize,
    /// Without any request.
    pub idle_timeout: Duration,
    /// For a request that has begun, and for the hello.
    pub request_timeout: Duration,
    /// For a reader that does not read.
    pub write_timeout: Duration,
    /// How long a request waits when it does not say.
    pub wait: Duration,
    /// The longest it may say.
    pub max_wait: Duration,
}

/// Requests that may wait, of all connections together: each holds a kilobyte or so.
const MOST_WAITING: usize = 100_000;

/// What every connection serves from.
pub struct Service {
    /// Segment IDs.
    pub segments: Segments,
    /// Snowflake IDs.
    pub issuer: Issuer,
    /// The worker IDs of all hosts.
    pub workers: Workers,
    /// The host's clock.
    pub clock: Clock,
    /// Bounds.
    pub limits: Limits,
    /// For status.
    pub state_dir: String,
    /// Where timers, the store and the disk are waited for.
    background: Handle,
    pulses: Pulses,
    started: Instant,
    requests: AtomicU64,
    /// Requests that wait, of all connections.
    waiting: Arc<AtomicUsize>,
    /// For administration.
    turns: Turns,
}

impl Service {
    /// A service that is ready from now on. What has to wait does so on the runtime that this is
    /// called in.
    #[must_use]
    pub fn new(
        segments: Segments,
        issuer: Issuer,
        workers: Workers,
        clock: Clock,
        limits: Limits,
        state_dir: String,
    ) -> Self {
        Self {
            segments,
            issuer,
            workers,
            clock,
            limits,
            state_dir,
            background: Handle::current(),
            pulses: Pulses::default(),
            started: Instant::now(),
            requests: AtomicU64::new(0),
            waiting: Arc::default(),
            turns: Turns::default(),
        }
    }

    /// How the daemon is.
    fn status(&self) -> DaemonStatus {
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            connections: u32::try_from(self.pulses.count()).unwrap_or(u32::MAX),
            requests: self.requests.load(Ordering::Relaxed),
            state_dir: self.state_dir.clone(),
            segments: self.segments.totals(),
            snowflake: self.issuer.status(),
        }
    }
}
