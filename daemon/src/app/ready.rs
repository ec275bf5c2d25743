//! What leafd logs once it serves.

use std::path::Path;

use super::hint;
use crate::config::Config;

/// Logs that leafd serves, and how to get the first ID.
pub(super) fn say_ready(socket: Option<&Path>, state: &Path, config: &Config) {
    let Some(socket) = socket else {
        tracing::info!(state = %state.display(), "ready, on a socket without a path");
        return;
    };
    let search: Vec<_> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let program = std::env::current_exe().ok();
    // If leafd's environment sets the socket, the shell of whoever reads the log may not.
    let ours = std::env::var_os(leaf_client::SOCKET_VARIABLE).is_some();
    let clients_look_at = (!ours).then(leaf_client::default_socket_path);
    let (what, call) = hint::first_call(config);
    let clients_look_at = clients_look_at.as_deref();
    let command = hint::first_command(socket, clients_look_at, &search, program.as_deref(), call);
    tracing::info!(socket = %socket.display(), state = %state.display(), "ready");
    tracing::info!("{what}: {command}");
}
