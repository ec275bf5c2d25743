//! Parses and checks the section of ZooKeeper: the ensemble's address, the tree's name and rights.

#[cfg(feature = "zookeeper")]
use super::acl;
use super::check::MS;
use super::problems::{Problem, Problems};
use super::{Config, RegistryKind};

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
        // Not quoted: what is before the @ is probably a password.
        if text.contains('@') {
            return Err(
                "contains an @: write only HOST:PORT of each server, and user and password \
                        into zookeeper.auth or zookeeper.auth-file"
                    .to_owned(),
            );
        }
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

impl Config {
    /// The ensemble; `None` with another registry.
    ///
    /// # Errors
    /// When `zookeeper.servers` is missing or invalid.
    pub(crate) fn ensemble(&self) -> Result<Option<Ensemble>, Problem> {
        match self.worker.registry {
            RegistryKind::ZooKeeper => self.configured_ensemble().map(Some),
            _ => Ok(None),
        }
    }

    /// The ensemble, whatever the registry is.
    ///
    /// # Errors
    /// When `zookeeper.servers` is missing or invalid.
    pub(crate) fn configured_ensemble(&self) -> Result<Ensemble, Problem> {
        let problem = |text| Problem::new("zookeeper.servers", text).with(&["worker.registry"]);
        let servers = self.zookeeper.servers.as_deref();
        let servers = servers.ok_or_else(|| {
            problem("is missing; write it like zk1:2181,zk2:2181,zk3:2181".to_owned())
        })?;
        Ensemble::parse(servers).map_err(problem)
    }

    pub(super) fn check_zookeeper(&self, problems: &mut Problems) {
        let (worker, zookeeper) = (&self.worker, &self.zookeeper);
        let second = 1000 * MS;
        let session = zookeeper.session_timeout;
        problems.duration("zookeeper.session-timeout", session, second, 600 * second);
        problems.duration("zookeeper.timeout", zookeeper.timeout, 100 * MS, 10 * second);
        let name = &zookeeper.name;
        let strange = |c: char| c == '/' || c.is_control();
        if name.is_empty() || name.contains(strange) || name == "." || name == ".." {
            problems.add("zookeeper.name", format!("{name:?} cannot be part of a path"));
        }
        #[cfg(feature = "zookeeper")]
        if let Err(why) = acl::parse(&zookeeper.acl) {
            problems.add("zookeeper.acl", why);
        }
        if zookeeper.auth.is_some() && zookeeper.auth_file.is_some() {
            let text = "is set, and so is zookeeper.auth-file; keep one of them".to_owned();
            problems.push(Problem::new("zookeeper.auth", text).with(&["zookeeper.auth-file"]));
        }
        if zookeeper.auth.as_ref().is_some_and(|auth| !auth.expose().contains(':')) {
            problems.add("zookeeper.auth", "*** is not USER:PASSWORD".into());
        }
        if let Err(problem) = self.ensemble() {
            problems.push(problem);
        }
        if worker.registry != RegistryKind::ZooKeeper {
            // The operator means ZooKeeper, but would get worker ID 0 on every host, for example.
            for (key, set) in [
                ("zookeeper.servers", zookeeper.servers.is_some()),
                ("zookeeper.auth", zookeeper.auth.is_some()),
                ("zookeeper.auth-file", zookeeper.auth_file.is_some()),
            ] {
                if set {
                    let registry = worker.registry.name();
                    let text = format!(
                        "is set, but worker.registry is {registry}; set it to \"zookeeper\""
                    );
                    problems.push(Problem::new(key, text).with(&["worker.registry"]));
                }
            }
        }
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
        for text in ["leaf:hunter2@zk", "leaf:hun,hunter2@zk:1", "zookeeper://leaf:hunter2@zk"] {
            let error = Ensemble::parse(text).unwrap_err();
            assert!(error.contains("zookeeper.auth") && !error.contains("hun"), "{error}");
        }
    }
}
