//! The sockets that listen for HTTP: the service manager's, or those that the configuration asks for.

use std::path::Path;

use super::failure::Failure;
use crate::access::principal::{HttpOrigin, Principal};
use crate::access::rules::{AccessRules, Grant};
use crate::config::Config;
use crate::transport::http::transport::{HttpSockets, listen_at};
use crate::transport::inherited::{HTTP, HTTP_LOCAL, Inherited};
use crate::transport::unix::socket::{Socket, SocketKeys};

/// The keys of the Unix socket for HTTP.
const KEYS: SocketKeys = SocketKeys { path: "http.socket", group: "http.socket-group" };

/// Takes over the sockets that the service manager passes, and opens what else is configured.
pub(super) fn listen(config: &Config, inherited: &mut Inherited) -> Result<HttpSockets, Failure> {
    let http = &config.http;
    let tcp = match (inherited.take_tcp(&HTTP), http.address()) {
        (Some(listener), None) => Some(listener),
        (Some(listener), Some(address)) => {
            if listener.local_addr().ok() != Some(address) {
                warn_of_other("http.listen", &address);
            }
            Some(listener)
        }
        (None, Some(address)) => Some(listen_at(address).map_err(|error| {
            Failure::not_now(format!("cannot listen at {address} (http.listen): {error}"))
        })?),
        (None, None) => None,
    };
    let unix = match (inherited.take_unix(&HTTP_LOCAL), &http.socket) {
        (Some(listener), path) => {
            let socket = Socket::inherited(listener);
            if let Some(path) = path.as_ref().filter(|path| !socket.is_at(path)) {
                warn_of_other("http.socket", &path.display());
            }
            Some(socket)
        }
        (None, Some(path)) => {
            let group = http.socket_group.as_deref();
            Some(Socket::bind(path, http.socket_mode, group, KEYS)?)
        }
        (None, None) => None,
    };
    Ok(HttpSockets { tcp, unix })
}

fn warn_of_other(key: &str, configured: &dyn std::fmt::Display) {
    tracing::warn!(
        "the service manager passes a socket for HTTP, and {key}, {configured}, is not used; change \
         ListenStream= of the socket unit"
    );
}

/// Where leafd serves HTTP, for the log.
pub(super) struct HttpPlaces {
    tcp: Option<std::net::SocketAddr>,
    unix: Option<std::path::PathBuf>,
    /// What whoever reads the log can ask for by TCP.
    hint: &'static str,
}

impl HttpPlaces {
    pub(super) fn of(sockets: &HttpSockets, config: &Config, access: &AccessRules) -> Self {
        let hint = hint(config, &access.grant(&Principal::Http(HttpOrigin::Unknown)));
        Self {
            hint,
            tcp: sockets.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()),
            unix: sockets.unix.as_ref().and_then(|unix| unix.path.clone()),
        }
    }

    /// Logs where leafd serves HTTP and who may ask, or how to turn it on.
    pub(super) fn tell(&self, config: &Config) {
        if self.tcp.is_none() && self.unix.is_none() {
            tracing::info!(
                "HTTP is off; LEAFD_HTTP_LISTEN=127.0.0.1:8736 turns it on (http.listen)"
            );
        }
        if let Some(unix) = &self.unix {
            let unix: &Path = unix;
            tracing::info!(socket = %unix.display(), "serving HTTP");
        }
        if let Some(address) = self.tcp {
            let path = self.hint;
            tracing::info!(listen = %address, "serving HTTP; try: curl http://{address}{path}");
            if config.access.rules.is_empty() {
                let who = match address.ip().is_loopback() {
                    true => "every user of this host",
                    false => "whoever reaches the port",
                };
                tracing::info!(
                    "by HTTP, {who} may get IDs and nobody may administer, since there are no \
                     access.rules"
                );
            }
        }
    }
}

/// A path that works for callers with this `grant`: an ID, or else a probe.
fn hint(config: &Config, grant: &Grant) -> &'static str {
    if grant.connect().is_err() {
        "/livez"
    } else if config.makes_tags() && grant.tag("orders").is_ok() {
        "/api/segment/get/orders"
    } else if config.snowflake.enabled && grant.snowflake().is_ok() {
        "/api/snowflake/get/x"
    } else {
        "/livez"
    }
}
