//! The limits of HTTP connections and requests. A reload can change those of the configuration.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};

use crate::config::{Config, MetricsAudience};

/// The keys that [`HttpLimits`] depends on.
pub(super) const RELOADED: [&str; 7] = [
    "http.hosts",
    "http.leaf-errors",
    "http.metrics",
    "http.max-connections",
    "http.idle-timeout",
    "http.request-timeout",
    "http.write-timeout",
];

/// Bytes of the head of one request: the request line and the headers.
pub(super) const MAX_HEAD: usize = 16 * 1024;

/// Headers of one request.
pub(super) const MAX_HEADERS: usize = 64;

/// Bytes of the body of one request. The largest valid one, which creates a tag, has some 2 KiB.
pub(super) const MAX_BODY: usize = 16 * 1024;

/// IDs in one answer, so that an answer that nobody reads stays small.
pub(super) const MAX_IDS: u32 = 1000;

/// Requests on one connection. A client then connects again, and a balancer in front can send it
/// elsewhere.
pub(super) const MAX_REQUESTS: u32 = 1_000_000;

/// Connections that leafd accepts, whatever the limit of open files: enough for probes.
const FEWEST: usize = 4;

/// What the configuration sets.
#[derive(Debug, Clone)]
pub(super) struct HttpLimits {
    /// Open connections.
    pub(super) max_connections: usize,
    /// How long a connection may send no request.
    pub(super) idle_timeout: Duration,
    /// How long the head of a request may take to arrive, and its body.
    pub(super) request_timeout: Duration,
    /// How long a client may leave its answer unread.
    pub(super) write_timeout: Duration,
    /// The names by which callers may reach leafd.
    pub(super) hosts: Vec<String>,
    /// Java Leaf's routes answer failures as Java Leaf does.
    pub(super) leaf_errors: bool,
    /// Who may see the metrics.
    pub(super) metrics: MetricsAudience,
}

impl HttpLimits {
    /// The limits that `config` sets, in a process that needs `other_descriptors` besides the
    /// connections of all sockets.
    pub(super) fn of(config: &Config, other_descriptors: u64) -> Self {
        let http = &config.http;
        Self {
            max_connections: room_for(http.max_connections, other_descriptors),
            idle_timeout: http.idle_timeout,
            request_timeout: http.request_timeout,
            write_timeout: http.write_timeout,
            hosts: http.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            leaf_errors: http.leaf_errors,
            metrics: http.metrics,
        }
    }
}

/// How many connections leafd may accept. Where descriptors are few, half of them stay with the
/// applications' socket, and HTTP shares the other half with the rest of the process.
fn room_for(connections: usize, other_descriptors: u64) -> usize {
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let room = share_of(limit, connections, other_descriptors);
    if room < connections {
        tracing::warn!(
            connections = room,
            wanted = connections,
            "the limit of open files, {limit}, allows fewer connections than http.max-connections"
        );
    }
    room
}

fn share_of(limit: u64, connections: usize, other_descriptors: u64) -> usize {
    let room = (limit / 2).saturating_sub(other_descriptors);
    usize::try_from(room).unwrap_or(usize::MAX).max(FEWEST).min(connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_descriptors_are_few_half_of_them_stay_with_the_applications_socket() {
        assert_eq!(share_of(65_536, 1024, 320), 1024);
        assert_eq!(share_of(1024, 1024, 320), 192);
        assert_eq!(share_of(256, 1024, 320), FEWEST);
    }
}
