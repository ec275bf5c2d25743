//! Parses and checks the section of the store in Redis.

use super::problems::{Problem, Problems};
use super::{Config, StoreKind};
use crate::store::StoreLocation;

/// The highest number of a database: Redis has 16 unless its configuration says otherwise.
const MAX_DATABASE: u64 = 65_535;

/// The most minutes of use that a counter skips after a restart or a failover.
const MAX_MARGIN: u64 = 1_000_000;

/// The longest prefix of leafd's own keys, in characters.
const MAX_OWN: usize = 64;

impl Config {
    /// Where Redis is.
    ///
    /// # Errors
    /// When a key is missing or invalid.
    #[cfg(feature = "redis")]
    pub(super) fn redis_location(&self) -> Result<StoreLocation, Problem> {
        use super::place;
        use crate::store::{KeyPattern, RedisPlace};
        use crate::tls::TlsFiles;

        let redis = &self.redis;
        let problem = |text| Problem::new("redis.servers", text).with(&["store.kind"]);
        let servers = redis.servers.as_deref().ok_or_else(|| {
            problem("is missing; write it like \"redis.example:6379\"".to_owned())
        })?;
        let mut parsed = RedisPlace::parse(servers, redis.sentinel.as_deref(), redis.database)
            .map_err(problem)?;
        parsed.keys = KeyPattern::new(&redis.key, &redis.own_keys)
            .map_err(|text| Problem::new("redis.key", text))?;
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(std::path::PathBuf::from);
        let file = |path: &Option<std::path::PathBuf>| {
            path.as_deref().map(|path| place(path, credentials.as_deref()))
        };
        parsed.tls = redis.tls.then(|| TlsFiles {
            section: "redis",
            ca: file(&redis.ca_file),
            own: file(&redis.cert_file).zip(file(&redis.key_file)),
        });
        parsed.user.clone_from(&redis.user);
        parsed.sentinel_user.clone_from(&redis.sentinel_user);
        parsed.margin = redis.margin;
        Ok(StoreLocation::Redis(Box::new(parsed)))
    }

    #[cfg(not(feature = "redis"))]
    pub(super) fn redis_location(&self) -> Result<StoreLocation, Problem> {
        let text = "this leafd was built without \"redis\"; build it with this feature of the package leafd";
        Err(Problem::new("store.kind", text.to_owned()))
    }

    pub(super) fn check_redis(&self, problems: &mut Problems) {
        let redis = &self.redis;
        problems.range("redis.database", u64::from(redis.database), 0, MAX_DATABASE);
        problems.range("redis.margin", redis.margin, 0, MAX_MARGIN);
        let (own, length) = (&redis.own_keys, redis.own_keys.chars().count());
        if length == 0 || length > MAX_OWN || own.contains(|c: char| c.is_control() || c == ':') {
            let text = format!("{own:?} is not a name of 1 to {MAX_OWN} characters without :");
            problems.add("redis.own-keys", text);
        }
        // With this store, `redis_location` says it.
        #[cfg(feature = "redis")]
        if let Err(text) = crate::store::KeyPattern::new(&redis.key, own)
            && self.store.kind != StoreKind::Redis
        {
            problems.add("redis.key", text);
        }
        let sets = [
            ("redis.password", redis.password.is_some()),
            ("redis.password-file", redis.password_file.is_some()),
            ("redis.sentinel-password", redis.sentinel_password.is_some()),
            ("redis.sentinel-password-file", redis.sentinel_password_file.is_some()),
        ];
        for [(key, is_set), (other, is_other_set)] in [[sets[0], sets[1]], [sets[2], sets[3]]] {
            if is_set && is_other_set {
                problems.add(key, format!("is set, and so is {other}; keep one of them"));
            }
        }
        for (key, is_set, other, is_other_set) in [
            (
                "redis.cert-file",
                redis.cert_file.is_some(),
                "redis.key-file",
                redis.key_file.is_some(),
            ),
            (
                "redis.key-file",
                redis.key_file.is_some(),
                "redis.cert-file",
                redis.cert_file.is_some(),
            ),
        ] {
            if is_set && !is_other_set {
                problems.add(key, format!("is set, but {other} is not; set both or none"));
            }
        }
        for (key, is_set) in [
            ("redis.ca-file", redis.ca_file.is_some()),
            ("redis.cert-file", redis.cert_file.is_some()),
        ] {
            if is_set && !redis.tls {
                let problem = Problem::new(key, "is set, but redis.tls is false".to_owned());
                problems.push(problem.with(&["redis.tls"]));
            }
        }
        let of_sentinels =
            [("redis.sentinel-user", redis.sentinel_user.is_some()), sets[2], sets[3]];
        for (key, is_set) in of_sentinels {
            if is_set && redis.sentinel.is_none() {
                let text = "is set, but redis.sentinel is not".to_owned();
                problems.push(Problem::new(key, text).with(&["redis.sentinel"]));
            }
        }
        // The operator means Redis, but would get another store.
        if self.store.kind != StoreKind::Redis {
            for (key, is_set) in [
                ("redis.servers", redis.servers.is_some()),
                ("redis.sentinel", redis.sentinel.is_some()),
                ("redis.user", redis.user.is_some()),
                sets[0],
                sets[1],
            ] {
                if is_set {
                    let text =
                        "is set, but store.kind is not redis; set it to \"redis\"".to_owned();
                    problems.push(Problem::new(key, text).with(&["store.kind"]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy_and_no_password_is_shown() {
        let kind = "[store]\nkind = \"redis\"\n[redis]\n";
        let with = |keys: &str| format!("{kind}servers = \"r\"\n{keys}");
        assert_eq!(problems(&with("")), [""; 0]);
        for (toml, told) in [
            (kind.to_owned(), "redis.servers: is missing"),
            (format!("{kind}servers = \"l:hunter2@r\""), "redis.user and redis.password"),
            (format!("{kind}servers = \"a,b\""), "redis.sentinel"),
            (with("key = \"id\""), "redis.key: \"id\" has no {tag}"),
            (with("own-keys = \"a:b\""), "redis.own-keys: \"a:b\""),
            (with("margin = 2000000"), "redis.margin: 2000000"),
            (with("password = \"hunter2\"\npassword-file = \"f\""), "and so is redis.password-file"),
            (with("sentinel-password = \"hunter2\""), "redis.sentinel is not"),
            (with("ca-file = \"/c\""), "redis.tls is false"),
            (with("tls = true\ncert-file = \"/c\""), "but redis.key-file is not"),
            ("[redis]\nservers = \"r\"".to_owned(), "store.kind is not redis"),
            (
                "[store]\nkind = \"redis\"\nurl = \"mysql://l:hunter2@d/x\"\n[redis]\nservers = \"r\"".to_owned(),
                "store.url: is set, but store.kind is redis",
            ),
        ] {
            let found = problems(&toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
        }
    }
}
