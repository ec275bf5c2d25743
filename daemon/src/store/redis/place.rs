//! Where Redis is, as the section `redis` of the configuration says. Printed without passwords.

use std::fmt;

use super::keys::KeyPattern;
use crate::tls::TlsFiles;

/// Redis' default port.
const PORT: u16 = 6379;

/// The Sentinels' default port.
const SENTINEL_PORT: u16 = 26379;

/// A server, or a Sentinel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RedisServer {
    /// A name or an address, an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Where Redis is, and how its counters are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisPlace {
    /// The server, or the Sentinels that know it.
    pub(crate) servers: Vec<RedisServer>,
    /// What the Sentinels call it.
    pub(crate) sentinel: Option<String>,
    /// The number of the database in the server.
    pub(crate) database: u32,
    /// The user of the server; none for Redis' default user.
    pub user: Option<String>,
    /// The user of the Sentinels.
    pub sentinel_user: Option<String>,
    /// How connections are encrypted, the Sentinels' as well; none if they are not.
    pub(crate) tls: Option<TlsFiles>,
    /// The counters' keys.
    pub keys: KeyPattern,
    /// How many times what a minute took a counter skips after a restart or a failover.
    pub margin: u64,
}

impl RedisPlace {
    /// A place with the default keys and margin, without users and TLS.
    ///
    /// # Errors
    /// When `servers` is not what it should be, with the remedy.
    pub fn parse(servers: &str, sentinel: Option<&str>, database: u32) -> Result<Self, String> {
        let port = if sentinel.is_some() { SENTINEL_PORT } else { PORT };
        let parsed: Result<Vec<_>, _> =
            servers.split(',').map(|one| server(one.trim(), port)).collect();
        let parsed = parsed?;
        if let Some(twice) =
            parsed.iter().find(|one| parsed.iter().filter(|it| it == one).count() > 1)
        {
            return Err(format!("{servers:?} names {twice} twice"));
        }
        if sentinel.is_none() && parsed.len() > 1 {
            return Err(format!(
                "{servers:?} names several servers; name the primary, or the Sentinels and set \
                 redis.sentinel"
            ));
        }
        Ok(Self {
            servers: parsed,
            sentinel: sentinel.map(str::to_owned),
            database,
            user: None,
            sentinel_user: None,
            tls: None,
            keys: KeyPattern::default(),
            margin: 1000,
        })
    }

    /// Tells one set of counters from another. A needless difference costs a gap, a missed one
    /// duplicates.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut sorted = self.clone();
        sorted.servers.sort();
        format!("{} {}", sorted.at(), self.keys.pattern())
    }

    fn at(&self) -> String {
        let servers: Vec<_> = self.servers.iter().map(ToString::to_string).collect();
        let by = self.sentinel.as_ref().map(|name| format!("{name}@")).unwrap_or_default();
        format!("redis {by}{}/{}", servers.join(","), self.database)
    }
}

/// For users: `redis db.example:6379/0`, or `redis mymaster@s1:26379,s2:26379/0`.
impl fmt::Display for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at())
    }
}

fn server(text: &str, default_port: u16) -> Result<RedisServer, String> {
    // Not quoted: what is before the @ is probably a password.
    if text.contains('@') {
        return Err(
            "contains an @: write only HOST:PORT, and user and password into redis.user and \
                    redis.password"
                .to_owned(),
        );
    }
    let wrong = || format!("{text:?} is not HOST:PORT, such as redis.example:{default_port}");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
            (host, port.strip_prefix(':').or(Some("").filter(|_| port.is_empty())))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
            None => (text, Some("")),
        },
    };
    let port = match port.ok_or_else(wrong)? {
        "" => default_port,
        port => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    let strange = |c: char| c.is_whitespace() || c.is_control() || "/?#\"'".contains(c);
    if host.is_empty() || host.contains(strange) {
        return Err(wrong());
    }
    Ok(RedisServer { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports_and_print_as_they_were_meant() {
        for (text, sentinel, printed) in [
            ("r", None, "redis r:6379/0"),
            ("10.0.0.1:7", None, "redis 10.0.0.1:7/0"),
            ("[::1]:7", None, "redis [::1]:7/0"),
            ("[::1]", None, "redis [::1]:6379/0"),
            ("a, b:1", Some("m"), "redis m@a:26379,b:1/0"),
        ] {
            assert_eq!(RedisPlace::parse(text, sentinel, 0).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_server_is_refused_with_the_remedy_and_no_password_is_shown() {
        for (text, told) in [
            ("", "\"\" is not HOST:PORT"),
            ("r:", "is not HOST:PORT"),
            ("r:0", "is not HOST:PORT"),
            ("r:70000", "is not HOST:PORT"),
            ("::1", "is not HOST:PORT"),
            ("[::1", "is not HOST:PORT"),
            ("[r]:1", "is not HOST:PORT"),
            ("redis://r:1", "is not HOST:PORT"),
            ("r 1", "is not HOST:PORT"),
            ("a:hunter2@r", "redis.user and redis.password"),
            ("a,b", "names several servers"),
            ("a,b:6379,a:6379", "twice"),
        ] {
            let error = RedisPlace::parse(text, None, 0).unwrap_err();
            assert!(error.contains(told) && !error.contains("hunter2"), "{text}: {error}");
        }
    }

    #[test]
    fn places_with_other_counters_are_others() {
        let place = RedisPlace::parse("r", None, 0).unwrap();
        let mut other = RedisPlace::parse("r", None, 1).unwrap();
        assert_ne!(place.identity(), other.identity());
        other = place.clone();
        other.keys = KeyPattern::new("seq:{tag}", "leafd").unwrap();
        assert_ne!(place.identity(), other.identity());
    }
}
