//! Parses and checks the keys that every shared registry of worker IDs has: the peer port's address,
//! and times that depend on each other. Each registry has its own section and its own file.

use std::net::{IpAddr, SocketAddr};

use super::Config;
use super::check::MS;
use super::problems::{Problem, Problems};
use crate::duration::exact;

/// `peer.advertise`: the address at which other instances find this one, as far as it is
/// configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerAddress {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

impl Config {
    /// The address of the peer port; `None` if it is turned off.
    ///
    /// # Errors
    /// When `peer.listen` is not an address.
    pub(crate) fn peer_listen(&self) -> Result<Option<SocketAddr>, Problem> {
        let Some(text) = &self.peer.listen else { return Ok(None) };
        let wrong = || {
            let text = format!("{text:?} is not IP:PORT, such as 0.0.0.0:8735 or [::]:8735");
            Problem::new("peer.listen", text)
        };
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// The address at which others find the peer port, as far as it is configured.
    ///
    /// # Errors
    /// When `peer.advertise` is not an address.
    pub(crate) fn peer_advertise(&self) -> Result<PeerAddress, Problem> {
        let Some(text) = &self.peer.advertise else { return Ok(PeerAddress::default()) };
        let with_port = text.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
        let without = || text.parse::<IpAddr>().map(|ip| (ip, None));
        let found = with_port.or_else(|_| without()).ok();
        let found = found.filter(|(ip, port)| !ip.is_unspecified() && *port != Some(0));
        let (ip, port) = found.ok_or_else(|| {
            let text = format!("{text:?} is not IP or IP:PORT of this host, such as 10.0.0.7:8735");
            Problem::new("peer.advertise", text)
        })?;
        Ok(PeerAddress { ip: Some(ip), port })
    }

    pub(super) fn check_registry(&self, problems: &mut Problems) {
        let worker = &self.worker;
        let (second, hour) = (1000 * MS, 3_600_000 * MS);
        problems
            .duration("worker.reclaim-after", worker.reclaim_after, 20 * second, 8760 * hour)
            .because(
                ": it has to be twice worker.fence-after, which is 10s at least, so that no other \
                 host takes over a worker ID while its owner may still issue",
            );
        let half = worker.reclaim_after / 2;
        let why = format!(
            ", half of worker.reclaim-after ({}): a host has to stop issuing long before another \
             may take over its worker ID, and has to outlast a short outage of the registry; \
             worker.reclaim-after would have to be {} or more",
            exact(worker.reclaim_after),
            exact(worker.fence_after.max(10 * second) * 2),
        );
        problems
            .duration("worker.fence-after", worker.fence_after, 10 * second, half)
            .because(&why)
            .with(&["worker.reclaim-after"]);
        let offset = worker.max_clock_offset;
        problems.duration("worker.max-clock-offset", offset, 10 * MS, hour);
        self.check_zookeeper(problems);
        self.check_database(problems);
        self.check_etcd(problems);
        self.check_worker_node(problems);
        for problem in
            [self.peer_listen().err(), self.peer_advertise().err(), self.check_identity()]
                .into_iter()
                .flatten()
        {
            problems.push(problem);
        }
        if !worker.registry.is_built() {
            let text = format!(
                "this leafd was built without {:?}; build it with this feature of the package leafd",
                worker.registry.name()
            );
            problems.push(Problem::new("worker.registry", text));
        }
        if worker.registry.is_shared() && worker.id != 0 {
            let text = format!(
                "{} is set, but the worker ID comes from the registry {:?}; remove it",
                worker.id,
                worker.registry.name()
            );
            problems.push(Problem::new("worker.id", text).with(&["worker.registry"]));
        }
    }

    /// Without `worker.identity`, the advertised address is the identity, so it must be the same at
    /// each start.
    fn check_identity(&self) -> Option<Problem> {
        let is_needed =
            self.worker.registry.has_claims()
                && self.worker.identity.is_none()
                && self.peer.advertise.as_ref().is_none_or(|_| {
                    self.peer_advertise().is_ok_and(|address| address.port.is_none())
                });
        let port = self.peer_listen().ok()?.map_or(0, |listen| listen.port());
        (is_needed && port == 0).then(|| {
            let text = "is missing, and without a fixed port in peer.listen there is no IP:PORT to \
                        use instead";
            let others = &["worker.registry", "peer.listen", "peer.advertise"];
            Problem::new("worker.identity", text.to_owned()).with(others)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;

    #[test]
    fn values_that_contradict_each_other_are_reported() {
        let right = "[worker]\nregistry = \"zookeeper\"\n[zookeeper]\nservers = \"zk\"\n";
        assert_eq!(problems(right), [""; 0]);
        for (toml, told) in [
            ("[worker]\nregistry = \"zookeeper\"", "zookeeper.servers: is missing"),
            ("[zookeeper]\nservers = \"zk\"", "worker.registry is fixed"),
            ("[zookeeper]\nauth = \"hunter2\"", "is not USER:PASSWORD"),
            (
                "[worker]\nfence-after = \"13h\"",
                "worker.fence-after: 13h is not between 10s and 12h, half of",
            ),
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
