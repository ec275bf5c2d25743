//! Raises the limit of open files, and computes how many connections it allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::{Config, RegistryKind};
use crate::transport::peer;
use crate::transport::unix::linger::MAX_LINGERING;
use crate::worker::peers::MAX_AT_ONCE;

/// Descriptors for files, sockets and the event queue, and those that writing state opens briefly.
const OTHER_DESCRIPTORS: u64 = 64;

/// Descriptors needed besides the socket's connections.
fn other_descriptors(config: &Config) -> u64 {
    let peers = match config.worker.registry {
        RegistryKind::Fixed => 0,
        RegistryKind::ZooKeeper => peer::MAX_CONNECTIONS + MAX_AT_ONCE,
    };
    OTHER_DESCRIPTORS + MAX_LINGERING as u64 + peers as u64
}

/// Raises the limit of open files as far as needed, because every connection needs a descriptor and
/// the usual soft limit is 1024. Returns how many of `socket.max-connections` fit, so that they
/// never take the descriptors that the state on disk needs.
pub(super) fn room_for(config: &Config) -> usize {
    let (connections, others) = (config.socket.max_connections, other_descriptors(config));
    let wanted = connections as u64 + others;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let raised = wanted.min(hard);
    let limit = match soft >= wanted {
        false if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() => raised,
        _ => soft,
    };
    let room = limit - others.min(limit / 2);
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
