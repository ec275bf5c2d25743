//! How many connections the limit of open files leaves room for.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::{Config, RegistryKind};
use crate::transport::peer;
use crate::transport::unix::linger::MAX_LINGERING;
use crate::worker::peers::MAX_AT_ONCE;

/// Descriptors that are not connections: files, sockets, the event queue, and what the writing of
/// state needs for a moment.
const OTHER_DESCRIPTORS: u64 = 64;

/// What is needed besides the connections of the socket.
fn other_descriptors(config: &Config) -> u64 {
    let peers = match config.worker.registry {
        RegistryKind::Fixed => 0,
        RegistryKind::ZooKeeper => peer::MAX_CONNECTIONS + MAX_AT_ONCE,
    };
    OTHER_DESCRIPTORS + MAX_LINGERING as u64 + peers as u64
}

/// Every connection needs a descriptor, and the usual soft limit is 1024. Returns how many of
/// socket.max-connections there is room for, so that they never take what the state on disk needs.
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
