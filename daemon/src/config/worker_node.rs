//! Parses and checks the section of Baidu's table.

use super::check::MS;
use super::problems::{Problem, Problems};
use super::{Config, RegistryKind, StoreKind};
use crate::store::{ServerKind, StoreAddress, StoreLocation};

/// The longest name of a table.
const MAX_TABLE: usize = 64;

impl Config {
    /// Where Baidu's table is, with the registry `worker-node`.
    ///
    /// # Errors
    /// When the address is missing or invalid.
    pub(crate) fn worker_node_address(&self) -> Result<StoreAddress, Problem> {
        let problem =
            |text| Problem::new("worker-node.url", text).with(&["worker.registry", "store.kind"]);
        if let Some(url) = &self.worker_node.url {
            let address = ServerKind::MySql.address(url.expose(), self.worker_node.tls_verify);
            return address.map_err(|error| problem(error.to_string()));
        }
        match self.store_location()? {
            StoreLocation::Shared(address) if self.store.kind == StoreKind::MySql => Ok(address),
            _ => Err(problem(format!(
                "is missing: Baidu's table is in MySQL or MariaDB, and the store is not one such database; write the URL \
                 like {}",
                ServerKind::MySql.example()
            ))),
        }
    }

    pub(super) fn check_worker_node(&self, problems: &mut Problems) {
        let (worker, section) = (&self.worker, &self.worker_node);
        problems.duration("worker-node.timeout", section.timeout, 100 * MS, 10_000 * MS);
        let table = &section.table;
        let is_plain = table.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        if table.is_empty() || table.len() > MAX_TABLE || !is_plain {
            let text = format!(
                "{table:?} is not the name of a table: 1 to {MAX_TABLE} letters, digits, _ and $"
            );
            problems.add("worker-node.table", text);
        }
        let (password, file) = (section.password.is_some(), section.password_file.is_some());
        if password && file {
            let text = "is set, and so is worker-node.password-file; keep one of them".to_owned();
            problems.add("worker-node.password", text);
        }
        if worker.registry == RegistryKind::WorkerNode {
            if let Err(problem) = self.worker_node_address() {
                problems.push(problem);
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
            ("worker-node.url", section.url.is_some()),
            ("worker-node.password", password),
            ("worker-node.password-file", file),
        ] {
            if set {
                let registry = worker.registry.name();
                let text =
                    format!("is set, but worker.registry is {registry}; set it to \"worker-node\"");
                problems.push(Problem::new(key, text).with(&["worker.registry"]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;
    use super::*;

    #[test]
    fn the_table_is_in_the_stores_database_unless_another_one_is_given() {
        let registry = "[worker]\nregistry = \"worker-node\"\n";
        let place = |toml: &str| {
            let toml = format!("{toml}{registry}");
            assert_eq!(problems(&toml), [""; 0]);
            toml::from_str::<Config>(&toml).unwrap().worker_node_address().unwrap().to_string()
        };
        let store = "[store]\nkind = \"mysql\"\nurl = \"mysql://l@db/leaf\"\n";
        assert_eq!(place(store), "mysql l@db:3306/leaf");
        let other = "[worker-node]\nurl = \"mysql://w@uid/uid\"\n";
        assert_eq!(place(other), "mysql w@uid:3306/uid");
        assert_eq!(place(&format!("{store}{other}")), "mysql w@uid:3306/uid");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy_and_no_password_is_shown() {
        let registry = "[worker]\nregistry = \"worker-node\"\n";
        for (toml, told) in [
            (registry.to_owned(), "worker-node.url: is missing: Baidu's table is in MySQL"),
            (
                format!("{registry}[store]\nkind = \"postgres\"\nurl = \"postgresql://l@d/x\""),
                "worker-node.url: is missing",
            ),
            (format!("{registry}[worker-node]\nurl = \"hunter2\""), "worker-node.url"),
            (format!("{registry}[worker-node]\ntable = \"a`b\""), "is not the name of a table"),
            (format!("{registry}[worker-node]\ntable = \"\""), "is not the name of a table"),
            (
                format!("{registry}java-leaf = true\n[worker-node]\nurl = \"mysql://l@d/x\""),
                "worker.java-leaf: is set",
            ),
            (format!("{registry}id = 3"), "worker.id: 3 is set"),
            (
                "[worker-node]\nurl = \"mysql://l:hunter2@d/x\"".to_owned(),
                "worker.registry is fixed",
            ),
            ("[worker-node]\ntimeout = \"1m\"".to_owned(), "worker-node.timeout: 1m"),
        ] {
            let found = problems(&toml);
            assert!(found.iter().any(|problem| problem.contains(told)), "{told}: {found:?}");
            assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
        }
    }
}
