//! How many descriptors leafd needs besides the connections of its sockets.

use crate::config::Config;
use crate::transport::peer;
use crate::transport::unix::linger::MAX_LINGERING;
use crate::worker::peers::MAX_AT_ONCE;

/// Descriptors that are not connections: files, listening sockets, event queues, and those that
/// writing state takes for a moment.
const OTHER_DESCRIPTORS: u64 = 64;

/// The descriptors that connections must not take. Does not change at a reload.
pub(super) fn other_descriptors(config: &Config) -> u64 {
    let shared = config.worker.registry.has_claims();
    let peers = if shared { peer::MAX_CONNECTIONS + MAX_AT_ONCE } else { 0 };
    OTHER_DESCRIPTORS + MAX_LINGERING as u64 + peers as u64
}

/// The descriptors that HTTP connections take, if leafd serves HTTP.
pub(super) fn http_descriptors(config: &Config, serves_http: bool) -> u64 {
    if serves_http { config.http.max_connections as u64 } else { 0 }
}
