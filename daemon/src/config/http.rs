//! `[http]`: the HTTP server, which is off unless `listen` or `socket` is set.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::check::MS;
use super::problems::Problems;
use super::{Config, values};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct HttpSection {
    #[serde(deserialize_with = "values::text")]
    pub(crate) listen: Option<String>,
    #[serde(deserialize_with = "values::path")]
    pub(crate) socket: Option<PathBuf>,
    #[serde(deserialize_with = "values::mode")]
    pub(crate) socket_mode: u32,
    #[serde(deserialize_with = "values::text")]
    pub(crate) socket_group: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) tokens: Vec<HttpTokenEntry>,
    pub(crate) leaf_errors: bool,
    pub(crate) metrics: MetricsAudience,
    pub(crate) max_connections: usize,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) idle_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) request_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) write_timeout: Duration,
}

/// Who may see the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MetricsAudience {
    Everybody,
    /// Whoever the access rules let connect.
    Rules,
    Nobody,
}

/// One element of `http.tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct HttpTokenEntry {
    /// The file or the credential that holds the token.
    pub(crate) file: PathBuf,
    /// The name of the rule that whoever shows the token falls under.
    pub(crate) rule: String,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: None,
            socket: None,
            socket_mode: 0o660,
            socket_group: None,
            hosts: Vec::new(),
            tokens: Vec::new(),
            leaf_errors: false,
            metrics: MetricsAudience::Everybody,
            max_connections: 1024,
            idle_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
        }
    }
}

impl HttpSection {
    /// `http.listen` as an address; `None` if it is not set, or wrong.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listen.as_ref().and_then(|text| text.parse().ok())
    }
}

impl Config {
    pub(super) fn check_http(&self, problems: &mut Problems) {
        let http = &self.http;
        if let Some(text) = http.listen.as_ref().filter(|_| http.address().is_none()) {
            let text = format!("{text:?} is not IP:PORT; write it like 127.0.0.1:8736");
            problems.add("http.listen", text);
        }
        problems.range("http.max-connections", http.max_connections as u64, 4, 100_000);
        let (second, day) = (1000 * MS, 86_400_000 * MS);
        problems.duration("http.idle-timeout", http.idle_timeout, second, day);
        problems.duration("http.request-timeout", http.request_timeout, 100 * MS, day);
        problems.duration("http.write-timeout", http.write_timeout, 100 * MS, day);
        for host in http.hosts.iter().filter(|host| !is_host(host)) {
            let text = format!(
                "{host:?} is not the name of a host; write it as in the URL, without scheme and port"
            );
            problems.add("http.hosts", text);
        }
        for token in &http.tokens {
            if token.file.as_os_str().is_empty() {
                problems.add("http.tokens", "an element has an empty file".into());
            }
            let named = self.access.rules.iter().filter(|rule| rule.name == token.rule).count();
            if token.rule.is_empty() || named != 1 {
                let text = format!(
                    "{:?} is the name of {named} rules in access.rules; name one rule",
                    token.rule
                );
                problems.add("http.tokens", text);
            }
        }
    }
}

fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(toml: &str) -> Vec<String> {
        let config: Config = toml::from_str(toml).unwrap();
        config.check().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_token_names_one_rule_and_the_rule_needs_no_users() {
        let rule = "[[access.rules]]\nname = \"billing\"\n";
        let token = "[[http.tokens]]\nfile = \"t\"\nrule = \"billing\"\n";
        assert_eq!(problems(&format!("{rule}{token}")), [""; 0]);
        for wrong in [token.to_owned(), format!("{rule}{rule}{token}")] {
            let found = problems(&wrong);
            assert!(
                found.iter().any(|text| text.contains("http.tokens: \"billing\"")),
                "{found:?}"
            );
        }
        let found = problems("[[http.tokens]]\nfile = \"\"\nrule = \"\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(problems("[[access.rules]]\nhttp = true\n"), [""; 0]);
    }

    #[test]
    fn an_address_has_a_port_and_a_host_has_neither_scheme_nor_port() {
        assert_eq!(
            problems("[http]\nlisten = \"[::1]:8736\"\nhosts = [\"leafd.example\"]"),
            [""; 0]
        );
        for wrong in [
            "listen = \"localhost:8736\"",
            "listen = \"127.0.0.1\"",
            "hosts = [\"http://a\"]",
            "hosts = [\"a:80\"]",
            "hosts = [\"\"]",
            "hosts = [\"a..b\"]",
        ] {
            assert_eq!(problems(&format!("[http]\n{wrong}")).len(), 1, "{wrong}");
        }
    }
}
