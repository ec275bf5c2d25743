//! The keys of worker IDs that every registry has: the peer listener's address, and the times that have
//! to fit together. Each registry has its own section and its own file.

use std::net::{IpAddr, SocketAddr};

use super::check::{MS, Problems};
use super::{Config, Problem, Registry};

/// The address at which others find this host, as far as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// None if leafd has to find it.
    pub ip: Option<IpAddr>,
    /// None if it is the listener's.
    pub port: Option<u16>,
}

impl Config {
    /// Where the peer listener is; none without a peer port.
    ///
    /// # Errors
    /// When it is not an address.
    pub fn peer_listen(&self) -> Result<Option<SocketAddr>, Problem> {
        let Some(text) = &self.peer.listen else { return Ok(None) };
        let wrong = || Problem {
            key: "peer.listen",
            text: format!("{text:?} is not IP:PORT, as in 0.0.0.0:8735 or [::]:8735"),
        };
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// Where others find the peer listener, as far as that is configured.
    ///
    /// # Errors
    /// When it is not an address.
    pub fn peer_advertise(&self) -> Result<Address, Problem> {
        let Some(text) = &self.peer.advertise else { return Ok(Address::default()) };
        let with_port = text.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
        let without = || text.parse::<IpAddr>().map(|ip| (ip, None));
        let found = with_port.or_else(|_| without()).ok();
        let found = found.filter(|(ip, port)| !ip.is_unspecified() && *port != Some(0));
        let (ip, port) = found.ok_or_else(|| Problem {
            key: "peer.advertise",
            text: format!("{text:?} is not IP or IP:PORT of this host, as in 10.0.0.7:8735"),
        })?;
        Ok(Address { ip: Some(ip), port })
    }

    pub(super) fn check_registry(&self, problems: &mut Problems) {
        let worker = &self.worker;
        let (second, hour) = (1000 * MS, 3_600_000 * MS);
        problems.duration("worker.reclaim-after", worker.reclaim_after, 20 * second, 8760 * hour);
        // A host must have stopped for long before another one begins in its place.
        let most = worker.reclaim_after / 2;
        problems.duration("worker.fence-after", worker.fence_after, 10 * second, most);
        let offset = worker.max_clock_offset;
        problems.duration("worker.max-clock-offset", offset, 10 * MS, hour);
        self.check_zookeeper(problems);
        for problem in
            [self.peer_listen().err(), self.peer_advertise().err(), self.check_identity()]
                .into_iter()
                .flatten()
        {
            problems.add(problem.key, problem.text);
        }
        if worker.registry == Registry::ZooKeeper && worker.id != 0 {
            let text =
                format!("{} is set, and ZooKeeper gives the worker ID; leave it out", worker.id);
            problems.add("worker.id", text);
        }
    }

    /// Without a configured identity the address is the identity, so it must be the same at each start.
    fn check_identity(&self) -> Option<Problem> {
        let is_needed =
            self.worker.registry.is_shared()
                && self.worker.identity.is_none()
                && self.peer.advertise.as_ref().is_none_or(|_| {
                    self.peer_advertise().is_ok_and(|address| address.port.is_none())
                });
        let port = self.peer_listen().ok()?.map_or(0, |listen| listen.port());
        (is_needed && port == 0).then(|| Problem {
            key: "worker.identity",
            text:
                "is missing, and without a fixed port in peer.listen there is no IP:PORT to take \
                   its place"
                    .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(toml: &str) -> Vec<String> {
        let config: Config = toml::from_str(toml).unwrap();
        config.check().iter().map(Problem::to_string).collect()
    }

    #[test]
    fn what_does_not_fit_together_is_told() {
        let right = "[worker]\nregistry = \"zookeeper\"\n[zookeeper]\nservers = \"zk\"\n";
        assert_eq!(problems(right), [""; 0]);
        for (toml, told) in [
            ("[worker]\nregistry = \"zookeeper\"", "zookeeper.servers: is missing"),
            ("[zookeeper]\nservers = \"zk\"", "worker.registry is fixed"),
            ("[zookeeper]\nauth = \"hunter2\"", "is not USER:PASSWORD"),
            ("[worker]\nfence-after = \"13h\"", "worker.fence-after: 46800s is not between"),
            ("[worker]\nreclaim-after = \"19s\"\nfence-after = \"10s\"", "worker.reclaim-after"),
            ("[peer]\nlisten = \"here\"", "peer.listen: \"here\" is not IP:PORT"),
            ("[peer]\nadvertise = \"0.0.0.0\"", "peer.advertise: \"0.0.0.0\""),
            ("[zookeeper]\nacl = \"nobody\"", "zookeeper.acl: \"nobody\""),
            ("[zookeeper]\nname = \"a/b\"", "zookeeper.name: \"a/b\""),
            ("[worker]\nregistry = \"zookeeper\"\nid = 3", "worker.id: 3 is set"),
        ] {
            let found = problems(toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")));
        }
        for port in ["\"127.0.0.1:0\"", "\"\""] {
            let found = problems(&format!("{right}[peer]\nlisten = {port}"));
            assert!(found[0].contains("worker.identity: is missing"), "{found:?}");
            let named = right.replace("[zookeeper]", "identity = \"a\"\n[zookeeper]");
            assert_eq!(problems(&format!("{named}[peer]\nlisten = {port}")), [""; 0]);
        }
    }
}
