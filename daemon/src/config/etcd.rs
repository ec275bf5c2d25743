//! Parses and checks the section of etcd.

use url::{Host, Url};

use super::check::MS;
use super::problems::{Problem, Problems};
use super::{Config, RegistryKind};

/// etcd's default port.
const PORT: u16 = 2379;

/// The longest `etcd.name`, in characters.
const MAX_NAME: usize = 64;

/// What an endpoint looks like.
const EXAMPLE: &str = "https://etcd1:2379";

/// Where a member of etcd serves its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdEndpoint {
    pub(crate) is_tls: bool,
    /// A name or an address, an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl EtcdEndpoint {
    /// `HOST:PORT`, an IPv6 address in brackets.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn parse(text: &str) -> Result<Self, String> {
        // Not quoted: what is before the @ is probably a password.
        if text.contains('@') {
            return Err("contains an @: write only the members' URLs, and user and password into \
                        etcd.user and etcd.password"
                .to_owned());
        }
        let wrong = || format!("{text:?} is not the URL of a member; write it like {EXAMPLE}");
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong()),
        };
        let host = match url.host().ok_or_else(wrong)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{text:?} has more than a host and a port, such as {EXAMPLE}"));
        }
        // A URL leaves out its scheme's own port, which somebody may have meant.
        let has_port = text.trim_end_matches('/').ends_with(if is_tls { ":443" } else { ":80" });
        let port = url.port().or(url.port_or_known_default().filter(|_| has_port)).unwrap_or(PORT);
        if port == 0 {
            return Err(wrong());
        }
        Ok(Self { is_tls, host, port })
    }
}

impl Config {
    /// The members of etcd.
    ///
    /// # Errors
    /// When `etcd.endpoints` is missing or invalid.
    pub(crate) fn etcd_endpoints(&self) -> Result<Vec<EtcdEndpoint>, Problem> {
        let problem = |text| Problem::new("etcd.endpoints", text).with(&["worker.registry"]);
        let text = self.etcd.endpoints.as_deref();
        let text = text.ok_or_else(|| {
            problem(format!("is missing; write it like {EXAMPLE},https://etcd2:2379"))
        })?;
        text.split(',').map(|one| EtcdEndpoint::parse(one.trim()).map_err(problem)).collect()
    }

    pub(super) fn check_etcd(&self, problems: &mut Problems) {
        let etcd = &self.etcd;
        let second = 1000 * MS;
        problems.duration("etcd.session-timeout", etcd.session_timeout, second, 600 * second);
        problems.duration("etcd.timeout", etcd.timeout, 100 * MS, 10 * second);
        let (name, length) = (&etcd.name, etcd.name.chars().count());
        let strange = |c: char| c == '/' || c.is_control();
        if length == 0 || length > MAX_NAME || name.contains(strange) {
            let text = format!("{name:?} is not a name of 1 to {MAX_NAME} characters without /");
            problems.add("etcd.name", text);
        }
        if etcd.password.is_some() && etcd.password_file.is_some() {
            let text = "is set, and so is etcd.password-file; keep one of them";
            problems.add("etcd.password", text.to_owned());
        }
        let (user, cert, key) = (&["etcd.user"], &["etcd.cert-file"], &["etcd.key-file"]);
        let has = [etcd.user.is_some(), etcd.cert_file.is_some(), etcd.key_file.is_some()];
        for (name, is_set, other, is_other_set) in [
            ("etcd.password", etcd.password.is_some(), user, has[0]),
            ("etcd.password-file", etcd.password_file.is_some(), user, has[0]),
            ("etcd.cert-file", has[1], key, has[2]),
            ("etcd.key-file", has[2], cert, has[1]),
        ] {
            if is_set && !is_other_set {
                let text = format!("is set, but {} is not; set both or none", other[0]);
                problems.push(Problem::new(name, text).with(other));
            }
        }
        if self.worker.registry == RegistryKind::Etcd {
            self.check_endpoints(problems);
            if self.worker.java_leaf {
                let text = "is set, but Java Leaf takes its worker ID from ZooKeeper alone";
                let problem = Problem::new("worker.java-leaf", text.to_owned());
                problems.push(problem.with(&["worker.registry"]));
            }
            return;
        }
        // The operator means etcd, but would get another registry's worker IDs.
        for (key, is_set) in [
            ("etcd.endpoints", etcd.endpoints.is_some()),
            ("etcd.user", etcd.user.is_some()),
            ("etcd.ca-file", etcd.ca_file.is_some()),
            ("etcd.cert-file", etcd.cert_file.is_some()),
        ] {
            if is_set {
                let registry = self.worker.registry.name();
                let text = format!("is set, but worker.registry is {registry}; set it to \"etcd\"");
                problems.push(Problem::new(key, text).with(&["worker.registry"]));
            }
        }
    }

    fn check_endpoints(&self, problems: &mut Problems) {
        let endpoints = match self.etcd_endpoints() {
            Ok(endpoints) => endpoints,
            Err(problem) => return problems.push(problem),
        };
        if endpoints.iter().any(|endpoint| endpoint.is_tls) {
            return;
        }
        for (key, is_set) in [
            ("etcd.ca-file", self.etcd.ca_file.is_some()),
            ("etcd.cert-file", self.etcd.cert_file.is_some()),
        ] {
            if is_set {
                let text = "is set, but no URL in etcd.endpoints begins with https:";
                problems.push(Problem::new(key, text.to_owned()).with(&["etcd.endpoints"]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;
    use super::*;

    #[test]
    fn endpoints_are_urls_with_a_host_and_a_port() {
        let registry = "[worker]\nregistry = \"etcd\"\n";
        let text = "https://etcd1:2379, http://10.0.0.2,https://[::1]:1/,http://e:80,https://e:443";
        let toml = format!("{registry}[etcd]\nendpoints = \"{text}\"");
        assert_eq!(problems(&toml), [""; 0]);
        let config: Config = toml::from_str(&toml).unwrap();
        let endpoints = config.etcd_endpoints().unwrap();
        let all: Vec<_> = endpoints.iter().map(|it| (it.is_tls, it.authority())).collect();
        let expected = [
            (true, "etcd1:2379"),
            (false, "10.0.0.2:2379"),
            (true, "[::1]:1"),
            (false, "e:80"),
            (true, "e:443"),
        ];
        assert_eq!(all, expected.map(|(is_tls, text)| (is_tls, text.to_owned())));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy_and_no_password_is_shown() {
        let registry = "[worker]\nregistry = \"etcd\"\n";
        let with = |keys: &str| format!("{registry}[etcd]\n{keys}");
        let right = "endpoints = \"http://e:2379\"\n";
        for (toml, told) in [
            (registry.to_owned(), "etcd.endpoints: is missing; write it like https://etcd1:2379"),
            (with("endpoints = \"etcd1:2379\""), "\"etcd1:2379\" is not the URL of a member"),
            (with("endpoints = \"http://e:0\""), "is not the URL of a member"),
            (with("endpoints = \"http://e,,http://f\""), "is not the URL of a member"),
            (with("endpoints = \"http://e/v3\""), "more than a host and a port"),
            (with("endpoints = \"http://l:hunter2@e\""), "etcd.user and etcd.password"),
            (
                with(&format!(
                    "{right}user = \"l\"\npassword = \"hunter2\"\npassword-file = \"f\""
                )),
                "etcd.password: is set, and so is etcd.password-file",
            ),
            (with(&format!("{right}password = \"hunter2\"")), "but etcd.user is not"),
            (with(&format!("{right}cert-file = \"/c\"")), "but etcd.key-file is not"),
            (
                with(&format!("{right}ca-file = \"/c\"")),
                "no URL in etcd.endpoints begins with https:",
            ),
            (with(&format!("{right}name = \"a/b\"")), "etcd.name: \"a/b\""),
            (with(&format!("{right}timeout = \"1m\"")), "etcd.timeout: 1m"),
            (
                format!("{registry}java-leaf = true\n[etcd]\n{right}"),
                "worker.java-leaf: is set, but Java Leaf takes its worker ID from ZooKeeper alone",
            ),
            (format!("{registry}id = 3\n[etcd]\n{right}"), "worker.id: 3 is set"),
            (format!("[etcd]\n{right}"), "worker.registry is fixed; set it to \"etcd\""),
        ] {
            let found = problems(&toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
        }
    }
}
