//! Parses and checks the section of the registry in a database.

use std::path::PathBuf;

use super::check::MS;
use super::problems::{Problem, Problems};
use super::{Config, RegistryKind};
use crate::secret::Secret;
use crate::store::{ServerKind, StoreAddress, StoreLocation};

/// The longest `database.name`, in characters.
const MAX_NAME: usize = 64;

/// Where the table of worker IDs is.
#[derive(Debug, Clone)]
pub(crate) enum RegistryDatabase {
    /// A file that the daemons of one host share.
    File(PathBuf),
    /// A server that many hosts share.
    Server(StoreAddress),
}

impl RegistryDatabase {
    /// Whether a password is in its URL.
    pub(super) fn has_password(&self) -> bool {
        matches!(self, Self::Server(address) if address.has_password())
    }
}

impl Config {
    /// Where the table of worker IDs is, with the registry `database`.
    ///
    /// # Errors
    /// When the address is missing or invalid.
    pub(crate) fn registry_database(&self) -> Result<RegistryDatabase, Problem> {
        if let Some(path) = &self.database.path {
            return Ok(RegistryDatabase::File(path.clone()));
        }
        let Some(url) = &self.database.url else {
            return match self.store_location()? {
                StoreLocation::Shared(address) => Ok(RegistryDatabase::Server(address)),
                #[cfg(feature = "redis")]
                StoreLocation::Redis(_) => {
                    let text = "is missing: the store is in Redis, which keeps no worker IDs; write the \
                                URL of a database that all hosts share";
                    let others = &["worker.registry", "store.kind"];
                    Err(Problem::new("database.url", text.to_owned()).with(others))
                }
                StoreLocation::Several(_) => {
                    let text = "is missing: none of the store's databases is there for sure, so worker \
                                IDs need one that all hosts share; write its URL";
                    let others = &["worker.registry", "store.kind"];
                    Err(Problem::new("database.url", text.to_owned()).with(others))
                }
                StoreLocation::Embedded => {
                    let text = "is missing: each embedded store is one daemon's own, so the daemons \
                                of this host need a file that they share; or write the URL of a \
                                database that all hosts share into database.url";
                    let others = &["worker.registry", "store.kind", "database.url"];
                    Err(Problem::new("database.path", text.to_owned()).with(others))
                }
            };
        };
        let problem = |text| Problem::new("database.url", text).with(&["worker.registry"]);
        let kind = kind_of(url).map_err(problem)?;
        let address = kind.address(url.expose(), self.database.tls_verify);
        address.map(RegistryDatabase::Server).map_err(|error| problem(error.to_string()))
    }

    pub(super) fn check_database(&self, problems: &mut Problems) {
        let (worker, database) = (&self.worker, &self.database);
        let second = 1000 * MS;
        let session = database.session_timeout;
        problems.duration("database.session-timeout", session, second, 600 * second);
        problems.duration("database.timeout", database.timeout, 100 * MS, 10 * second);
        let name = &database.name;
        let length = name.chars().count();
        let is_trimmed = name.trim() == name;
        if length == 0 || length > MAX_NAME || !is_trimmed || name.contains(char::is_control) {
            problems.add(
                "database.name",
                format!(
                    "{name:?} is not a name of 1 to {MAX_NAME} characters without blanks around it"
                ),
            );
        }
        let (password, file) = (database.password.is_some(), database.password_file.is_some());
        for (key, other, are_both) in [
            ("database.url", "database.path", database.url.is_some() && database.path.is_some()),
            ("database.password", "database.password-file", password && file),
        ] {
            if are_both {
                problems.add(key, format!("is set, and so is {other}; keep one of them"));
            }
        }
        if worker.registry == RegistryKind::Database {
            if let Err(problem) = self.registry_database() {
                problems.push(problem);
            }
            if let Some(path) = database.path.as_deref().filter(|path| !path.is_absolute()) {
                let text = format!("{} is not an absolute path", path.display());
                problems.add("database.path", text);
            }
            if database.path.is_some() && database.path == self.store.path {
                let text = "is the file of the store, which is one daemon's own; the daemons of this \
                            host share another one";
                let problem = Problem::new("database.path", text.to_owned());
                problems.push(problem.with(&["store.path"]));
            }
            if worker.java_leaf {
                let text = "is set, but Java Leaf takes its worker ID from ZooKeeper alone";
                let problem = Problem::new("worker.java-leaf", text.to_owned());
                problems.push(problem.with(&["worker.registry"]));
            }
            return;
        }
        // The operator means this registry, but would get another one's worker IDs.
        for (key, set) in [
            ("database.url", database.url.is_some()),
            ("database.path", database.path.is_some()),
            ("database.password", database.password.is_some()),
            ("database.password-file", database.password_file.is_some()),
        ] {
            if set {
                let registry = worker.registry.name();
                let text =
                    format!("is set, but worker.registry is {registry}; set it to \"database\"");
                problems.push(Problem::new(key, text).with(&["worker.registry"]));
            }
        }
    }
}

/// The kind of server that a URL names.
pub(super) fn kind_of(url: &Secret) -> Result<ServerKind, String> {
    let scheme = url.expose().split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme.to_ascii_lowercase().as_str() {
        "mysql" | "mariadb" => Ok(ServerKind::MySql),
        "postgres" | "postgresql" => Ok(ServerKind::Postgres),
        // Not quoted: it may be a part of a password.
        _ => Err(format!(
            "begins with neither mysql: nor postgres:; write it like {} or {}",
            ServerKind::MySql.example(),
            ServerKind::Postgres.example()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(toml: &str) -> Config {
        toml::from_str(toml).unwrap()
    }

    fn problems(toml: &str) -> Vec<String> {
        config(toml).check().iter().map(Problem::to_string).collect()
    }

    #[test]
    fn the_table_is_in_the_stores_database_unless_another_place_is_given() {
        let store = "[store]\nkind = \"mysql\"\nurl = \"mysql://l@db/leaf\"\n";
        let place = |toml: &str| {
            let toml = format!("{store}[worker]\nregistry = \"database\"\n{toml}");
            assert_eq!(problems(&toml), [""; 0]);
            match config(&toml).registry_database().unwrap() {
                RegistryDatabase::File(path) => path.display().to_string(),
                RegistryDatabase::Server(address) => address.to_string(),
            }
        };
        assert_eq!(place(""), "mysql l@db:3306/leaf");
        let other = "[database]\nurl = \"postgresql://w@pg/ids\"";
        assert_eq!(place(other), "postgres w@pg:5432/ids");
        assert_eq!(place("[database]\npath = \"/run/ids.db\""), "/run/ids.db");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy_and_no_password_is_shown() {
        let registry = "[worker]\nregistry = \"database\"\n";
        for (toml, told) in [
            (registry.to_owned(), "database.path: is missing"),
            (format!("{registry}[database]\npath = \"ids.db\""), "not an absolute path"),
            (format!("{registry}[database]\nurl = \"hunter2\""), "neither mysql: nor postgres:"),
            (format!("{registry}[database]\nurl = \"mysql://l:hunter2@d\""), "names no database"),
            (
                format!("{registry}java-leaf = true\n[database]\npath = \"/a\""),
                "worker.java-leaf: is set, but Java Leaf takes its worker ID from ZooKeeper alone",
            ),
            (
                format!("{registry}[database]\npath = \"/a\"\nurl = \"mysql://l@d/x\""),
                "database.url: is set, and so is database.path",
            ),
            (format!("{registry}id = 3\n[database]\npath = \"/a\""), "worker.id: 3 is set"),
            ("[database]\nname = \"\"".to_owned(), "database.name: \"\""),
            ("[database]\npath = \"/a\"".to_owned(), "worker.registry is fixed"),
            ("[database]\ntimeout = \"1m\"".to_owned(), "database.timeout: 1m"),
        ] {
            let found = problems(&toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
        }
    }
}
