//! Where the worker ID comes from: a number in the configuration, or a registry.

use super::some_of;
use crate::config::RegistryKind;
use crate::doctor::facts::{Facts, Seen};
use crate::doctor::finding::{Check, Finding};
use crate::worker::registry::inspection::RegistryFacts;

/// Java Leaf writes its node every 3 s. This leaves room for clocks that differ.
const JAVA_WRITES_MS: u64 = 60_000;

/// From this share of the layout's worker IDs on, in percent, few are left.
const NEARLY: u64 = 90;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    if facts.wants_snowflakes() != Some(true) {
        return;
    }
    if facts.has_fixed_worker() == Some(true) {
        fixed(facts, out);
    } else {
        registry(facts, out);
    }
}

fn fixed(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::WorkerId;
    let running = facts.status().and_then(|status| status.snowflake.worker);
    let Some(worker) = running.or_else(|| facts.config().map(|config| config.worker.id)) else {
        return;
    };
    out.push(if worker != 0 {
        Finding::ok(check, format!("this host has worker ID {worker}, by configuration"))
    } else if facts.has_shared_store() == Some(true) {
        Finding::warn(check, "worker ID 0, the default, on a shared store")
            .because("If a second host has it too, both issue the same snowflake IDs.")
            .remedy(
                "Number the hosts: worker.id, or a shared worker.registry. If there are no \
                 snowflake IDs, set snowflake.enabled = false.",
            )
    } else {
        Finding::ok(check, "worker ID 0, the default: right for one host alone")
    });
}

/// What a registry is called, where to look if it cannot be read, and the key of its fleet's name.
const fn words(kind: RegistryKind) -> [&'static str; 3] {
    match kind {
        RegistryKind::ZooKeeper => [
            "ZooKeeper",
            "See zookeeper.servers, zookeeper.auth and the nodes' ACL.",
            "zookeeper.name",
        ],
        RegistryKind::Etcd => [
            "etcd",
            "See etcd.endpoints, etcd.user, the certificates, and the role's rights below /leafd/NAME/.",
            "etcd.name",
        ],
        RegistryKind::WorkerNode => [
            "the database of Baidu's table",
            "See worker-node.url, or store.url without it, and the rights: SELECT, INSERT, UPDATE.",
            "worker-node.table",
        ],
        RegistryKind::Fixed | RegistryKind::Database => [
            "the registry's database",
            "See database.url, or store.url without it, and the rights to the tables leafd_worker \
             and leafd_worker_fleet, which `leafd schema` prints.",
            "database.name",
        ],
    }
}

fn registry(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Registry;
    let [name, see, _] = words(facts.registry_kind());
    let has_worker = facts.status().is_some_and(|status| status.snowflake.worker.is_some());
    let told = facts.status().map(|status| status.snowflake.registry_error.as_str());
    let told = told.filter(|error| !error.is_empty());
    if let Some(error) = told {
        let (title, so) = match has_worker {
            true => ("cannot report to", "It issues IDs until its limit, then none."),
            false => ("does not reach", "It has no worker ID until it does."),
        };
        out.push(
            Finding::warn(check, format!("leafd {title} {name}"))
                .because(format!("{error}. {so}"))
                .remedy("See that it runs, in a cluster most of its servers, and that this host reaches it."),
        );
    }
    match &facts.registry {
        Seen::As(registry) => {
            worker_ids(facts, registry, out);
            if facts.registry_kind() == RegistryKind::ZooKeeper {
                java_leaf(facts, registry, out);
            }
            if told.is_none() && !out.iter().any(|finding| finding.check == check) {
                out.push(Finding::ok(check, format!("the registry answers: {}", registry.name)));
            }
        }
        Seen::Not(why) if told.is_none() => out.push(
            // The daemon may have what this user lacks, such as systemd's credentials.
            match facts.status() {
                Some(_) => Finding::unknown(check, format!("cannot read {name} from here")),
                None => Finding::bad(check, format!("cannot read {name}")),
            }
            .because(why.as_str())
            .remedy(see),
        ),
        Seen::Not(_) | Seen::Nothing => {}
    }
}

fn worker_ids(facts: &Facts, registry: &RegistryFacts, out: &mut Vec<Finding>) {
    let check = Check::Registry;
    let Some(config) = facts.config() else { return };
    let own = config.snowflake.layout.to_string();
    let [_, _, fleet] = words(facts.registry_kind());
    if let Some(layout) = registry.layout.as_ref().filter(|layout| **layout != own) {
        out.push(
            Finding::bad(check, "the fleet has another layout")
                .because(format!("{} says {layout}, and snowflake.layout is {own}.", registry.name))
                .remedy(format!("Give this host the fleet's layout, or another {fleet}.")),
        );
    }
    let most = config.snowflake.layout.max_worker().saturating_add(1);
    if registry.next_worker.saturating_mul(100) >= most.saturating_mul(NEARLY) {
        out.push(
            Finding::warn(check, "few new worker IDs are left")
                .because(format!("{} of {most} were given out.", registry.next_worker))
                .remedy(make_room(facts.registry_kind())),
        );
    }
}

const fn make_room(kind: RegistryKind) -> &'static str {
    match kind {
        RegistryKind::WorkerNode => {
            "Each start takes one, and none is used again: choose a registry that reclaims them \
             (worker.registry)."
        }
        _ => "Release those of hosts that are gone: `leafctl worker list`, `… release`.",
    }
}

fn java_leaf(facts: &Facts, registry: &RegistryFacts, out: &mut Vec<Finding>) {
    let check = Check::JavaLeaf;
    let Some(config) = facts.config() else { return };
    let is_live = |written_ms: u64| facts.now_ms.saturating_sub(written_ms) < JAVA_WRITES_MS;
    let live = registry.javas.iter().filter(|java| is_live(java.written_ms));
    let live: Vec<String> = live.map(|java| java.identity.clone()).collect();
    out.push(match (live.is_empty(), config.worker.java_leaf) {
        (false, false) => Finding::bad(check, "Java Leaf runs in the tree, and leafd is not told")
            .because(format!(
                "Something that is not a leafd writes the node of {}. leafd may then reclaim worker \
                 IDs that a Java Leaf still uses.",
                some_of(&live)
            ))
            .remedy("Set worker.java-leaf = true on every leafd, and restart them."),
        (false, true) => Finding::ok(check, format!("Java Leaf runs beside: {}", some_of(&live))),
        (true, true) => Finding::note(check, "no Java Leaf writes the tree at present")
            .because("While worker.java-leaf is true, leafd reclaims no worker ID.")
            .remedy("When the last Java Leaf is gone for good, set it to false everywhere."),
        (true, false) => Finding::ok(check, "no Java Leaf writes the tree"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::sample::{config, healthy, of, running};
    use crate::doctor::{DaemonFacts, Level, examine};
    use crate::worker::registry::inspection::JavaNode;

    fn in_zookeeper(toml: &str) -> Facts {
        let mut facts = healthy();
        running(&mut facts).snowflake.registry = "zookeeper".to_owned();
        facts.configuration = config(&format!(
            "[zookeeper]\nservers = \"zk\"\n[worker]\nregistry = \"zookeeper\"\n{toml}"
        ));
        facts.registry = Seen::As(RegistryFacts {
            name: "zookeeper /snowflake/leaf".to_owned(),
            next_worker: 3,
            layout: Some("leaf".parse::<leaf_client::Layout>().unwrap().to_string()),
            javas: Vec::new(),
        });
        facts
    }

    fn found_in(facts: &mut Facts) -> &mut RegistryFacts {
        match &mut facts.registry {
            Seen::As(registry) => registry,
            _ => panic!(),
        }
    }

    #[test]
    fn worker_0_is_a_warning_only_on_a_shared_store() {
        let mut facts = healthy();
        assert_eq!(of(&facts, Check::WorkerId).level, Level::Ok);
        running(&mut facts).snowflake.worker = Some(0);
        assert_eq!(of(&facts, Check::WorkerId).level, Level::Warn);
        running(&mut facts).segments.store = "sqlite /var/lib/leafd/leafd.db".to_owned();
        assert_eq!(of(&facts, Check::WorkerId).level, Level::Ok);
        facts.daemon = DaemonFacts::Down(String::new());
        facts.configuration = config("[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\"");
        assert_eq!(of(&facts, Check::WorkerId).level, Level::Warn);
        facts.configuration = config(
            "[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\"\n[snowflake]\nenabled = false",
        );
        assert!(!examine(&facts).iter().any(|finding| finding.check == Check::WorkerId));
    }

    #[test]
    fn java_leaf_that_writes_has_to_be_known() {
        let java = |written_ms| JavaNode { identity: "10.0.0.1:8080".to_owned(), written_ms };
        for (java_leaf, age_ms, level) in [
            ("", 3000, Level::Bad),
            ("", 61_000, Level::Ok),
            ("java-leaf = true", 3000, Level::Ok),
            ("java-leaf = true", 61_000, Level::Note),
        ] {
            let mut facts = in_zookeeper(java_leaf);
            let written_ms = facts.now_ms - age_ms;
            found_in(&mut facts).javas.push(java(written_ms));
            let found = of(&facts, Check::JavaLeaf);
            assert_eq!(found.level, level, "{java_leaf} {age_ms}");
        }
    }

    #[test]
    fn a_tree_that_nearly_has_no_worker_ids_left_is_a_warning() {
        let mut facts = in_zookeeper("");
        assert_eq!(of(&facts, Check::Registry).level, Level::Ok);
        found_in(&mut facts).next_worker = 922;
        let found = of(&facts, Check::Registry);
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.contains("922 of 1024"), "{}", found.detail);
        found_in(&mut facts).layout = Some("twitter".to_owned());
        assert_eq!(of(&facts, Check::Registry).level, Level::Bad);
    }

    #[test]
    fn an_ensemble_that_fails_is_a_warning_while_leafd_runs_and_bad_before_it_starts() {
        let mut facts = in_zookeeper("");
        facts.registry = Seen::Not("no server can be reached".to_owned());
        assert_eq!(of(&facts, Check::Registry).level, Level::Unknown);
        running(&mut facts).snowflake.registry_error = "Connection refused".to_owned();
        let found = of(&facts, Check::Registry);
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.contains("Connection refused. It issues IDs until its limit"));
        running(&mut facts).snowflake.worker = None;
        let found = of(&facts, Check::Registry);
        assert!(found.detail.ends_with("It has no worker ID until it does."), "{}", found.detail);
        facts.daemon = DaemonFacts::Down(String::new());
        assert_eq!(of(&facts, Check::Registry).level, Level::Bad);
    }
}
