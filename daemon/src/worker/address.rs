//! Finds where this instance can be reached, which is also its identity if none is configured.

use std::net::IpAddr;

use tokio::net::UdpSocket;

use super::claim::instance::{InstanceAddress, RegistryWords};
use crate::config::PeerAddress;

impl InstanceAddress {
    /// The address of an instance that cannot find its own at present. Others cannot ask it for the
    /// time.
    pub(crate) fn remembered(identity: &str, port: u16) -> Self {
        let (ip, leaf_port) = identity.rsplit_once(':').unwrap_or((identity, ""));
        Self {
            identity: identity.to_owned(),
            leaf_ip: ip.to_owned(),
            leaf_port: leaf_port.to_owned(),
            ip: ip.to_owned(),
            port,
        }
    }
}

/// The address of an instance: `configured` is its identity, `advertised` what is configured of its
/// address, `port` that of its listener. The way to `servers` tells the rest.
///
/// # Errors
/// When the address is needed, not configured, and cannot be found.
pub(crate) async fn find(
    configured: Option<&str>,
    advertised: PeerAddress,
    port: u16,
    servers: &[String],
    words: &RegistryWords,
) -> Result<InstanceAddress, String> {
    let ip = match advertised.ip {
        Some(ip) => ip,
        None => towards(servers).await.map_err(|why| (words.no_address)(&why))?,
    };
    Ok(with(configured, ip, advertised.port.unwrap_or(port)))
}

fn with(configured: Option<&str>, ip: IpAddr, port: u16) -> InstanceAddress {
    let address = match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    };
    let identity = configured.map_or(address, str::to_owned);
    // An identity that is an address is the one that Java Leaf had here.
    let (leaf_ip, leaf_port) = match javas_address(&identity) {
        Some((ip, port)) => (ip.to_owned(), port.to_owned()),
        None => (ip.to_string(), port.to_string()),
    };
    InstanceAddress { identity, leaf_ip, leaf_port, ip: ip.to_string(), port }
}

/// The address that Java Leaf knows an instance by, if `identity` is one.
pub(crate) fn javas_address(identity: &str) -> Option<(&str, &str)> {
    let (ip, port) = identity.rsplit_once(':')?;
    (is_address(ip) && port.parse::<u16>().is_ok()).then_some((ip, port))
}

fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// The address that packets to the servers leave from. None is sent.
async fn towards(servers: &[String]) -> Result<IpAddr, String> {
    let mut last = String::new();
    for server in servers {
        match towards_one(server).await {
            Ok(ip) if !ip.is_unspecified() => return Ok(ip),
            Ok(_) => {}
            Err(error) => last = format!("{server}: {error}"),
        }
    }
    Err(last)
}

async fn towards_one(server: &str) -> std::io::Result<IpAddr> {
    let mut last = std::io::Error::other("the name has no address");
    for address in tokio::net::lookup_host(server).await? {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let found = async {
            let socket = UdpSocket::bind(any).await?;
            socket.connect(address).await?;
            Ok(socket.local_addr()?.ip())
        };
        match found.await {
            Ok(ip) => return Ok(ip),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::registry::zookeeper::WORDS;

    #[test]
    fn the_identity_is_the_address_unless_one_is_configured() {
        let place = with(None, "10.0.0.7".parse().unwrap(), 8735);
        assert_eq!(place.identity, "10.0.0.7:8735");
        assert_eq!((&*place.leaf_ip, &*place.leaf_port), ("10.0.0.7", "8735"));
        let place = with(Some("node-7"), "10.0.0.7".parse().unwrap(), 8735);
        assert_eq!((&*place.identity, &*place.leaf_ip), ("node-7", "10.0.0.7"));
        let place = with(Some("10.0.0.9:8080"), "10.0.0.7".parse().unwrap(), 8735);
        assert_eq!((&*place.leaf_ip, &*place.leaf_port), ("10.0.0.9", "8080"));
        assert_eq!((&*place.ip, place.port), ("10.0.0.7", 8735));
        let place = with(None, "::1".parse().unwrap(), 1);
        assert_eq!((&*place.identity, &*place.ip), ("[::1]:1", "::1"));
    }

    #[test]
    fn the_address_is_found_by_the_route_and_nothing_is_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let servers = |text: &str| [text.to_owned()];
        let found = runtime.block_on(towards(&servers("127.0.0.1:9")));
        assert_eq!(found, Ok("127.0.0.1".parse().unwrap()));
        let nowhere = servers("no.such.host.invalid:1");
        let found = find(None, PeerAddress::default(), 1, &nowhere, &WORDS);
        let error = runtime.block_on(found).unwrap_err();
        for part in ["zookeeper.servers", "peer.advertise", "invalid"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
