//! Parses and checks the keys for worker IDs from ZooKeeper: the ensemble's address, the peer
//! port's, and times that depend on each other.

use std::net::{IpAddr, SocketAddr};

use super::acl;
use super::check::{MS, Problems};
use super::{Config, Problem, RegistryKind};

/// ZooKeeper's default port.
const PORT: u16 = 2181;

/// The address of a ZooKeeper ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// `HOST:PORT` of each server.
    pub(crate) servers: Vec<String>,
    /// The path that leafd uses as the root; empty without one.
    pub(crate) chroot: String,
}

impl Ensemble {
    /// Parses `HOST:PORT,HOST:PORT/CHROOT`.
    ///
    /// # Errors
    /// Describes what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (list, chroot) = text.split_at(text.find('/').unwrap_or(text.len()));
        let chroot = chroot.trim_end_matches('/');
        if chroot.contains("//") || chroot.split('/').any(|part| part == "." || part == "..") {
            return Err(format!("the chroot {chroot:?} is not a ZooKeeper path"));
        }
        let servers = list.split(',').map(server).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { servers, chroot: chroot.to_owned() })
    }
}

fn server(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not a server; write HOST:PORT, such as zk1:2181");
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, rest)) => {
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
            (format!("[{host}]"), rest.strip_prefix(':').or((rest.is_empty()).then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), Some("")),
        },
    };
    let port = match port.ok_or_else(wrong)? {
        "" if !text.ends_with(':') => PORT,
        port => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    let strange = |c: char| !(c.is_ascii_alphanumeric() || ".-_[]:".contains(c));
    if host.is_empty() || host.contains(strange) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// `peer.advertise`: the address at which other instances find this one, as far as it is
/// configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerAddress {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

impl Config {
    /// The ensemble; `None` with a fixed worker ID.
    ///
    /// # Errors
    /// When `zookeeper.servers` is missing or invalid.
    pub(crate) fn ensemble(&self) -> Result<Option<Ensemble>, Problem> {
        if self.worker.registry == RegistryKind::Fixed {
            return Ok(None);
        }
        let problem = |text| Problem { key: "zookeeper.servers", text };
        let servers = self.zookeeper.servers.as_deref();
        let servers = servers.ok_or_else(|| {
            problem("is missing; write it like zk1:2181,zk2:2181,zk3:2181".to_owned())
        })?;
        Ensemble::parse(servers).map(Some).map_err(problem)
    }

    /// The address of the peer port; `None` if it is turned off.
    ///
    /// # Errors
    /// When `peer.listen` is not an address.
    pub(crate) fn peer_listen(&self) -> Result<Option<SocketAddr>, Problem> {
        let Some(text) = &self.peer.listen else { return Ok(None) };
        let wrong = || Problem {
            key: "peer.listen",
            text: format!("{text:?} is not IP:PORT, such as 0.0.0.0:8735 or [::]:8735"),
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
        let (ip, port) = found.ok_or_else(|| Problem {
            key: "peer.advertise",
            text: format!("{text:?} is not IP or IP:PORT of this host, such as 10.0.0.7:8735"),
        })?;
        Ok(PeerAddress { ip: Some(ip), port })
    }

    pub(super) fn check_registry(&self, problems: &mut Problems) {
        let (worker, zookeeper) = (&self.worker, &self.zookeeper);
        let (second, hour) = (1000 * MS, 3_600_000 * MS);
        problems.duration("worker.reclaim-after", worker.reclaim_after, 20 * second, 8760 * hour);
        // A host must stop issuing long before another may take over its worker ID.
        let most = worker.reclaim_after / 2;
        problems.duration("worker.fence-after", worker.fence_after, 10 * second, most);
        let offset = worker.max_clock_offset;
        problems.duration("worker.max-clock-offset", offset, 10 * MS, hour);
        let session = zookeeper.session_timeout;
        problems.duration("zookeeper.session-timeout", session, second, 600 * second);
        problems.duration("zookeeper.timeout", zookeeper.timeout, 100 * MS, 10 * second);
        let name = &zookeeper.name;
        let strange = |c: char| c == '/' || c.is_control();
        if name.is_empty() || name.contains(strange) || name == "." || name == ".." {
            problems.add("zookeeper.name", format!("{name:?} cannot be part of a path"));
        }
        if let Err(why) = acl::parse(&zookeeper.acl) {
            problems.add("zookeeper.acl", why);
        }
        if zookeeper.auth.is_some() && zookeeper.auth_file.is_some() {
            let text = "is set, and so is zookeeper.auth-file; keep one of them";
            problems.add("zookeeper.auth", text.into());
        }
        if zookeeper.auth.as_ref().is_some_and(|auth| !auth.expose().contains(':')) {
            problems.add("zookeeper.auth", "*** is not USER:PASSWORD".into());
        }
        for problem in [
            self.ensemble().err(),
            self.peer_listen().err(),
            self.peer_advertise().err(),
            self.check_identity(),
        ]
        .into_iter()
        .flatten()
        {
            problems.add(problem.key, problem.text);
        }
        if worker.registry == RegistryKind::ZooKeeper && worker.id != 0 {
            let text =
                format!("{} is set, but the worker ID comes from ZooKeeper; remove it", worker.id);
            problems.add("worker.id", text);
        }
        if worker.registry == RegistryKind::Fixed {
            // The operator means a shared registry, but would get worker ID 0 on every host.
            for (key, set) in [
                ("zookeeper.servers", zookeeper.servers.is_some()),
                ("zookeeper.auth", zookeeper.auth.is_some()),
                ("zookeeper.auth-file", zookeeper.auth_file.is_some()),
            ] {
                if set {
                    let text = "is set, but worker.registry is fixed; set it to \"zookeeper\"";
                    problems.add(key, text.into());
                }
            }
        }
    }

    /// Without `worker.identity`, the advertised address is the identity, so it must be the same at
    /// each start.
    fn check_identity(&self) -> Option<Problem> {
        let is_needed =
            self.worker.registry == RegistryKind::ZooKeeper
                && self.worker.identity.is_none()
                && self.peer.advertise.as_ref().is_none_or(|_| {
                    self.peer_advertise().is_ok_and(|address| address.port.is_none())
                });
        let port = self.peer_listen().ok()?.map_or(0, |listen| listen.port());
        (is_needed && port == 0).then(|| Problem {
            key: "worker.identity",
            text: "is missing, and without a fixed port in peer.listen there is no IP:PORT to use \
                   instead"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ensembles_are_parsed_like_zookeepers_clients_write_them() {
        for (text, servers, chroot) in [
            ("zk", &["zk:2181"][..], ""),
            ("zk1:1,zk2:2", &["zk1:1", "zk2:2"], ""),
            ("10.0.0.1:2181/a/b", &["10.0.0.1:2181"], "/a/b"),
            ("[::1]:7,[fe80::1]/", &["[::1]:7", "[fe80::1]:2181"], ""),
        ] {
            let ensemble = Ensemble::parse(text).unwrap();
            assert_eq!(ensemble.servers, servers);
            assert_eq!(ensemble.chroot, chroot);
        }
        for text in [
            "", ",", "a:", "a:0", "a:65536", "a b", "a:1,,b", "[x]:1", "[::1]x", "a/../b",
            "::1:2181",
        ] {
            assert!(Ensemble::parse(text).is_err(), "{text}");
        }
    }

    fn problems(toml: &str) -> Vec<String> {
        let config: Config = toml::from_str(toml).unwrap();
        config.check().iter().map(Problem::to_string).collect()
    }

    #[test]
    fn values_that_contradict_each_other_are_reported() {
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
