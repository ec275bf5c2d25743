//! Checks each value, and the values that depend on each other. leafd corrects nothing silently:
//! the list of problems names each key with its value.

use std::time::Duration;

use super::problems::{Problem, Problems};
use super::{Config, RegistryKind, StoreKind, log_level};
use crate::ids::MAX_STEP;
use crate::safety::MOST_CEILING_AHEAD_MS;
use crate::store::StoreAddress;

/// Longest `worker.identity` and `state.machine-id`, in characters.
const MAX_NAME: usize = 200;

pub(super) const MS: Duration = Duration::from_millis(1);

/// The most IDs that every tag skips when hosts are missing.
const MAX_MISSING_MARGIN: u64 = 1_000_000_000_000;

impl Config {
    /// Everything that is wrong; empty if leafd can start. This does not look at the clock, which
    /// may be wrong now and right a minute later.
    #[must_use]
    pub(crate) fn check(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        self.check_socket(&mut problems);
        self.check_access(&mut problems);
        self.check_http(&mut problems);
        self.check_metrics(&mut problems);
        self.check_segment(&mut problems);
        self.check_snowflake(&mut problems);
        self.check_store(&mut problems);
        self.check_registry(&mut problems);
        self.check_lend(&mut problems);
        problems.duration("shutdown.grace", self.shutdown.grace, Duration::ZERO, 600_000 * MS);
        if let Some(wrong) = log_level::wrong(&self.log.level) {
            problems.add("log.level", wrong);
        }
        for (key, text) in [
            ("worker.identity", &self.worker.identity),
            ("state.machine-id", &self.state.machine_id),
        ] {
            if let Some(text) = text.as_ref().filter(|text| text.chars().any(char::is_control)) {
                problems.add(key, format!("{text:?} contains a control character"));
            }
            // The name of a row has each byte outside of ASCII as three.
            let bytes =
                if self.worker.registry == RegistryKind::Database { MAX_NAME } else { usize::MAX };
            if text.as_ref().is_some_and(|text| text.len() > bytes) {
                problems.add(key, format!("is longer than {MAX_NAME} bytes (worker.registry)"));
            }
            if text.as_ref().is_some_and(|text| text.chars().count() > MAX_NAME) {
                problems.add(key, format!("is longer than {MAX_NAME} characters"));
            }
        }
        problems.all()
    }

    fn check_socket(&self, problems: &mut Problems) {
        let socket = &self.socket;
        problems.range("socket.max-connections", socket.max_connections as u64, 1, 1_000_000);
        problems.range("socket.max-in-flight", socket.max_in_flight as u64, 1, 65_536);
        problems.range("socket.max-count", u64::from(socket.max_count), 1, 1_000_000);
        problems
            .range("socket.max-request-bytes", socket.max_request_bytes as u64, 1600, 4096)
            .because(": the longest valid request needs 1600 bytes");
        let (second, day) = (1000 * MS, 86_400_000 * MS);
        problems.duration("socket.idle-timeout", socket.idle_timeout, second, 30 * day);
        problems.duration("socket.request-timeout", socket.request_timeout, 100 * MS, day);
        problems.duration("socket.write-timeout", socket.write_timeout, 100 * MS, day);
    }

    fn check_store(&self, problems: &mut Problems) {
        let store = &self.store;
        let (shortest, why) = match store.kind {
            StoreKind::MySql => (
                1500 * MS,
                ": MySQL and MariaDB count lock timeouts in whole seconds, and have to time out \
                 before leafd does",
            ),
            StoreKind::Several => (
                1500 * MS,
                ": MySQL and MariaDB, which may be among the databases, count lock timeouts in whole \
                 seconds, and have to time out before leafd does",
            ),
            StoreKind::Sqlite | StoreKind::Postgres | StoreKind::Redis => (10 * MS, ""),
        };
        problems
            .duration("store.timeout", store.timeout, shortest, 600_000 * MS)
            .because(why)
            .with(&["store.kind"]);
        problems.range("store.max-connections", store.max_connections as u64, 5, 1000);
        let (day, second) = (86_400_000 * MS, 1000 * MS);
        problems.duration("store.missing-after", store.missing_after, 10 * second, day);
        problems.range("store.missing-margin", store.missing_margin, 1, MAX_MISSING_MARGIN);
        self.check_redis(problems);
        let location = match self.store_location() {
            Ok(location) => location,
            Err(problem) => return problems.push(problem),
        };
        self.check_several(problems);
        if location.addresses().is_empty() {
            // The operator means a shared database, but would get another store.
            let meant = match store.kind {
                StoreKind::Redis => {
                    "is set, but store.kind is redis; set it in the section redis (servers, user, password)"
                }
                _ => "is set, but store.kind is sqlite; set store.kind to the database's kind",
            };
            for (key, set) in [
                ("store.url", store.url.is_some()),
                ("store.password", store.password.is_some()),
                ("store.password-file", store.password_file.is_some()),
            ] {
                if set {
                    problems.push(Problem::new(key, meant.into()).with(&["store.kind"]));
                }
            }
        }
        if store.kind != StoreKind::Sqlite && store.path.is_some() {
            let text = "is set, but only store.kind sqlite uses it".to_owned();
            problems.push(Problem::new("store.path", text).with(&["store.kind"]));
        }
        // Of several databases, those whose URL has none use the one that is set apart.
        let addresses = location.addresses();
        let in_url = !addresses.is_empty() && addresses.iter().all(StoreAddress::has_password);
        let places = [in_url, store.password.is_some(), store.password_file.is_some()];
        if places.iter().filter(|set| **set).count() > 1 {
            let text = "the password is set more than once, in store.url, store.urls, store.password or \
                        store.password-file; keep one of them";
            let problem = Problem::new("store.password", text.into());
            problems.push(problem.with(&["store.url", "store.password-file"]));
        }
    }

    fn check_segment(&self, problems: &mut Problems) {
        let segment = &self.segment;
        problems.range("segment.max-step", segment.max_step, 1, MAX_STEP);
        problems
            .range("segment.default-step", segment.default_step, 1, segment.max_step)
            .because(" (segment.max-step)")
            .with(&["segment.max-step"]);
        problems.range("segment.max-waiting", segment.max_waiting as u64, 1, 10_000_000);
        problems.range("segment.max-tags", segment.max_tags as u64, 1, 10_000_000);
        problems.duration("segment.max-wait", segment.max_wait, MS, 3_600_000 * MS);
        problems
            .duration("segment.wait", segment.wait, MS, segment.max_wait)
            .because(" (segment.max-wait)")
            .with(&["segment.max-wait"]);
        problems.duration("segment.refresh", segment.refresh, 100 * MS, 86_400_000 * MS);
        problems.duration(
            "segment.unknown-for",
            segment.unknown_for,
            Duration::ZERO,
            3_600_000 * MS,
        );
        if !segment.retire_after.is_zero() {
            let day = 86_400_000 * MS;
            problems
                .duration("segment.retire-after", segment.retire_after, day, 3650 * day)
                .because("; 0s: never");
        }
    }

    fn check_snowflake(&self, problems: &mut Problems) {
        let snowflake = &self.snowflake;
        if !snowflake.enabled {
            return;
        }
        let layout = &snowflake.layout;
        let second = 1000 * MS;
        problems
            .range("worker.id", self.worker.id, 0, layout.max_worker())
            .because(&format!(": snowflake.layout {layout} has no bits for more"))
            .with(&["snowflake.layout", "snowflake.enabled"]);
        problems.duration(
            "snowflake.ceiling-ahead",
            snowflake.ceiling_ahead,
            100 * MS,
            Duration::from_millis(MOST_CEILING_AHEAD_MS),
        )
        .because(
            ": a disk that stalls for half of it stops snowflake IDs, and a crash costs all of it",
        )
        .with(&["snowflake.enabled"]);
        problems.duration("snowflake.max-lead", snowflake.max_lead, Duration::ZERO, second);
        problems.duration(
            "snowflake.clock-tolerance",
            snowflake.clock_tolerance,
            Duration::ZERO,
            second,
        );
        problems.duration(
            "snowflake.start-wait",
            snowflake.start_wait,
            Duration::ZERO,
            60 * second,
        );
        problems
            .range("snowflake.random-start", snowflake.random_start, 0, layout.max_sequence() + 1)
            .because(": snowflake.layout has no more sequence numbers in a time unit")
            .with(&["snowflake.layout", "snowflake.enabled"]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::of_toml as problems;

    #[test]
    fn every_problem_is_listed_with_its_key_and_value() {
        assert_eq!(problems(""), [""; 0]);
        let found = problems(
            "[socket]\nmax-count = 0\n[segment]\ndefault-step = 5\nmax-step = 4\n\
             [worker]\nid = 1024\n[log]\nlevel = \"loud\"",
        );
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("socket.max-count: 0"));
        assert!(found[1].contains("segment.default-step: 5"));
        assert!(found[2].contains("worker.id: 1024 is not between 0 and 1023"));
        assert!(found[3].contains("loud"));
    }

    #[test]
    fn a_store_whose_keys_do_not_fit_together_is_refused() {
        for (toml, key) in [
            ("kind = \"mysql\"", "store.url: is missing"),
            ("kind = \"postgres\"\nurl = \"mysql://l@d/x\"", "store.url: it begins with mysql:"),
            ("url = \"mysql://l@d/x\"", "store.url: is set, but store.kind is sqlite"),
            ("password = \"hunter2\"", "store.password: is set, but store.kind"),
            (
                "kind = \"mysql\"\nurl = \"mysql://l:hunter2@d/x\"\npassword = \"hunter2\"",
                "store.password: the password is set more than once",
            ),
            ("kind = \"mysql\"\nurl = \"mysql://l@d/x\"\npath = \"/x\"", "store.path"),
            ("max-connections = 4", "store.max-connections: 4"),
            (
                "kind = \"mariadb\"\nurl = \"mysql://l@d/x\"\ntimeout = \"1s\"",
                "store.timeout: 1s is not between 1s500ms",
            ),
        ] {
            let found = problems(&format!("[store]\n{toml}"));
            assert!(found.len() == 1 && found[0].contains(key), "{found:?}");
            assert!(!found[0].contains("hunter2"));
        }
        assert_eq!(problems("[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\""), [""; 0]);
    }
}
