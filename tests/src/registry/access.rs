//! How a daemon reaches a fleet in a registry: keys of its configuration.

use crate::daemon::Home;

/// The settings of a daemon that takes its worker ID from a registry. A connect string stands for a tree
/// in ZooKeeper.
#[derive(Debug, Clone)]
pub struct RegistryAccess {
    registry: &'static str,
    section: &'static str,
    timeout: &'static str,
    has_sessions: bool,
    settings: Vec<(String, String)>,
}

impl RegistryAccess {
    /// For a `worker.registry`, whose keys begin with `section`, as in variables. `timeout` is a short
    /// one, with which a daemon notices soon that it is cut off.
    #[must_use]
    pub const fn new(registry: &'static str, section: &'static str, timeout: &'static str) -> Self {
        Self { registry, section, timeout, has_sessions: true, settings: Vec::new() }
    }

    /// For a registry that does not notice when a daemon is gone.
    #[must_use]
    pub const fn without_sessions(mut self) -> Self {
        self.has_sessions = false;
        self
    }

    /// Adds a key of the section: `("NAME", "leaf")`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.push((self.key(key), value.to_owned()));
        self
    }

    /// A key of the section, by its variable: `DATABASE_TIMEOUT` for `TIMEOUT`.
    #[must_use]
    pub fn key(&self, key: &str) -> String {
        format!("{}_{key}", self.section)
    }

    /// Makes a daemon take its worker ID from there.
    #[must_use]
    pub fn apply(&self, home: Home) -> Home {
        let home = home.with("WORKER_REGISTRY", self.registry);
        self.settings.iter().fold(home, |home, (key, value)| home.with(key, value))
    }

    /// As [`Self::apply`], with short timeouts.
    #[must_use]
    pub fn apply_impatiently(&self, home: Home) -> Home {
        let mut home = self.apply(home).with(&self.key("TIMEOUT"), self.timeout);
        if self.has_sessions {
            home = home.with(&self.key("SESSION_TIMEOUT"), "2s");
        }
        home
    }
}

impl From<&Self> for RegistryAccess {
    fn from(access: &Self) -> Self {
        access.clone()
    }
}

impl From<&str> for RegistryAccess {
    fn from(connect_string: &str) -> Self {
        Self::new("zookeeper", "ZOOKEEPER", "500ms").with("SERVERS", connect_string)
    }
}

impl From<&String> for RegistryAccess {
    fn from(connect_string: &String) -> Self {
        connect_string.as_str().into()
    }
}
