//! What a Redis server says of itself, and whether leafd may use it. Text in, judgements out; no IO.

use std::collections::HashMap;

/// Scripts are replicated by their effects from this version on.
const OLDEST: u64 = 5;

/// Why leafd does not lease from a server that shows no replication ID.
pub(super) const HIDES: &str = "the server hides its replication ID (INFO replication, master_replid), so leafd would \
     not notice a restart or a failover that lost leases: connect to Redis itself, not to a proxy";

/// What `INFO` says.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerInfo(HashMap<String, String>);

/// What `CONFIG GET` says of how writes survive; none where the user may not ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Durability {
    pub(super) appendonly: Option<bool>,
    pub(super) appendfsync: Option<String>,
    /// The points at which a snapshot is saved, as in `3600 1 300 100`; empty for never.
    pub(super) save: Option<String>,
}

impl ServerInfo {
    pub(super) fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// Product and version.
    pub(super) fn product(&self) -> String {
        let product = if self.0.contains_key("valkey_version") { "Valkey" } else { "Redis" };
        let version = match self.get("valkey_version") {
            "" => self.get("redis_version"),
            version => version,
        };
        format!("{product} {version}")
    }

    pub(super) fn is_replica(&self) -> bool {
        self.get("role") == "slave"
    }

    /// How many replicas copy the server's writes.
    pub(super) fn replicas(&self) -> u64 {
        self.number("connected_slaves")
    }

    /// Why leafd may not lease from this server, with the remedy.
    pub(super) fn refusal(&self) -> Option<String> {
        let major = self.get("redis_version").split('.').next();
        let major: Option<u64> = major.and_then(|major| major.parse().ok());
        let eviction = self.get("maxmemory_policy");
        if self.get("redis_mode") == "sentinel" {
            Some(
                "this is a Sentinel: set redis.sentinel to what it calls the primary, or name the \
                 primary in redis.servers"
                    .to_owned(),
            )
        } else if self.number("cluster_enabled") == 1 || self.get("redis_mode") == "cluster" {
            Some(
                "the server is part of a Redis Cluster (cluster-enabled yes), and leafd's scripts use \
                 several keys: use a server of its own, or one that Sentinels watch"
                    .to_owned(),
            )
        } else if major.is_none_or(|major| major < OLDEST) {
            let version = self.get("redis_version");
            Some(format!("the server has version {version:?}, and leafd needs {OLDEST}.0 or later"))
        } else if !is_replication_id(self.get("master_replid")) {
            Some(HIDES.to_owned())
        } else if self.is_replica() {
            let primary = format!("{}:{}", self.get("master_host"), self.get("master_port"));
            Some(format!("this is a replica of {primary}: name the primary in redis.servers"))
        } else if eviction.starts_with("allkeys-") {
            Some(format!(
                "maxmemory-policy is {eviction}, so Redis may throw counters away, and IDs would begin \
                 again: set it to noeviction or to a volatile- policy"
            ))
        } else {
            None
        }
    }
}

fn is_replication_id(text: &str) -> bool {
    let is_hex = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && text.bytes().any(|byte| byte != b'0')
}

impl Durability {
    /// What a crash of the server can lose, and the setting that would keep it; none if nothing is lost,
    /// or if nobody may know.
    pub(super) fn loss(&self) -> Option<(String, &'static str)> {
        match (self.appendonly?, self.appendfsync.as_deref(), self.save.as_deref()) {
            (true, Some("always"), _) | (true, None, _) => None,
            (true, Some("everysec"), _) => {
                Some(("the leases of up to two seconds".to_owned(), "appendfsync always"))
            }
            (true, Some(_), _) => Some((
                "the leases that the kernel has not written yet, half a minute as a rule"
                    .to_owned(),
                "appendfsync always",
            )),
            (false, _, Some(save)) if !save.trim().is_empty() => {
                let longest = save.split_whitespace().step_by(2).filter_map(|it| it.parse().ok());
                let seconds: u64 = longest.max().unwrap_or(0);
                Some((format!("the leases of up to {seconds} s and more"), "appendonly yes"))
            }
            (false, _, _) => {
                Some(("every counter, with everything else in it".to_owned(), "appendonly yes"))
            }
        }
    }

    /// The server writes to its disk once a second.
    pub(super) fn is_every_second(&self) -> bool {
        self.appendonly == Some(true) && self.appendfsync.as_deref() == Some("everysec")
    }

    /// The settings, for messages.
    pub(super) fn settings(&self) -> String {
        let yes_or_no = |it: bool| if it { "yes" } else { "no" };
        let appendonly = self.appendonly.map(yes_or_no).unwrap_or("unknown");
        match (self.appendonly, &self.appendfsync, &self.save) {
            (Some(true), Some(sync), _) => format!("appendonly {appendonly}, appendfsync {sync}"),
            (_, _, Some(save)) => format!("appendonly {appendonly}, save {save:?}"),
            _ => format!("appendonly {appendonly}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(fields: &[&str]) -> ServerInfo {
        let usual = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n\
                     cluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n# Replication\r\n\
                     master_replid:0123456789abcdef0123456789abcdef01234567\r\n";
        ServerInfo::parse(&format!("{usual}{}", fields.join("\r\n")))
    }

    #[test]
    fn a_server_that_can_lose_counters_by_itself_is_refused_with_the_remedy() {
        assert_eq!(info(&[]).refusal(), None);
        assert_eq!(info(&["maxmemory_policy:volatile-lru"]).refusal(), None);
        for (fields, told) in [
            (&["maxmemory_policy:allkeys-lru"][..], "maxmemory-policy is allkeys-lru"),
            (&["maxmemory_policy:allkeys-random"], "noeviction"),
            (&["cluster_enabled:1"], "cluster-enabled yes"),
            (&["redis_mode:sentinel"], "redis.sentinel"),
            (&["role:slave", "master_host:a", "master_port:1"], "a replica of a:1"),
            (&["master_replid:"], "hides its replication ID"),
            (
                &["master_replid:0000000000000000000000000000000000000000"],
                "hides its replication ID",
            ),
            (&["redis_version:4.0.1"], "\"4.0.1\""),
            (&["redis_version:"], "version \"\""),
        ] {
            let refusal = info(fields).refusal().unwrap();
            assert!(refusal.contains(told), "{refusal}");
        }
    }

    #[test]
    fn what_a_crash_loses_follows_from_the_settings() {
        let durability = |appendonly, appendfsync: &str, save: &str| Durability {
            appendonly: Some(appendonly),
            appendfsync: Some(appendfsync.to_owned()),
            save: Some(save.to_owned()),
        };
        assert_eq!(Durability::default().loss(), None);
        assert_eq!(durability(true, "always", "").loss(), None);
        for (durability, lost, remedy) in [
            (durability(true, "everysec", ""), "two seconds", "appendfsync always"),
            (durability(true, "no", ""), "kernel", "appendfsync always"),
            (durability(false, "everysec", "3600 1 300 100"), "up to 3600 s", "appendonly yes"),
            (durability(false, "everysec", ""), "every counter", "appendonly yes"),
        ] {
            let (text, setting) = durability.loss().unwrap();
            assert!(text.contains(lost) && setting == remedy, "{text}");
        }
        assert_eq!(
            durability(true, "everysec", "").settings(),
            "appendonly yes, appendfsync everysec"
        );
        assert_eq!(durability(false, "no", "").settings(), "appendonly no, save \"\"");
    }
}
