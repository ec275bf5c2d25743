//! The limits of connections on the Unix socket. A reload can change all of them.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// The keys, or sections ending in a dot, that [`UnixLimits`] depends on.
pub(super) const RELOADED: [&str; 5] = [
    "socket.max-connections",
    "socket.max-request-bytes",
    "socket.idle-timeout",
    "socket.request-timeout",
    "socket.write-timeout",
];

/// Limits on what clients of the Unix socket can make leafd hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnixLimits {
    /// Open connections.
    pub(super) max_connections: usize,
    /// Bytes of one request.
    pub(super) max_request_bytes: usize,
    /// How long a connection may send no request.
    pub(super) idle_timeout: Duration,
    /// How long a request may take to arrive once it has begun, and the hello after the connect.
    pub(super) request_timeout: Duration,
    /// How long a client may leave its answers unread.
    pub(super) write_timeout: Duration,
}

impl UnixLimits {
    /// The limits that `config` sets, in a process that needs `other_descriptors` besides these
    /// connections.
    pub(super) fn of(config: &Config, other_descriptors: u64) -> Self {
        let socket = &config.socket;
        Self {
            max_connections: room_for(socket.max_connections, other_descriptors),
            max_request_bytes: socket.max_request_bytes,
            idle_timeout: socket.idle_timeout,
            request_timeout: socket.request_timeout,
            write_timeout: socket.write_timeout,
        }
    }
}

/// Raises the limit of open files, usually 1024, as far as socket.max-connections needs and the hard
/// limit allows. Returns how many connections leafd may accept so that they never take the
/// descriptors that the state on disk needs.
fn room_for(connections: usize, other_descriptors: u64) -> usize {
    let wanted = connections as u64 + other_descriptors;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let raised = wanted.min(hard);
    let limit = match soft >= wanted {
        false if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() => raised,
        _ => soft,
    };
    let room = limit - other_descriptors.min(limit / 2);
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(connections);
    if room < connections {
        tracing::warn!(
            connections = room,
            wanted = connections,
            "the limit of open files, {limit}, allows fewer connections than socket.max-connections"
        );
    }
    room
}
