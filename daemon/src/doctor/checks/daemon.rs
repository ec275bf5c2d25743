//! The configuration, and whether leafd runs with it and can be reached.

use leaf_client::wire::DaemonStatus;

use crate::config::{Config, RegistryKind, StoreKind};
use crate::doctor::facts::{ConfigurationFacts, DaemonFacts, Facts, SocketFacts};
use crate::doctor::finding::{Check, Finding};

/// A file that was written this long before leafd became ready counts as read: the clock that dates
/// files is coarse.
const READ_BEFORE_MS: u64 = 1000;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    configuration(&facts.configuration, out);
    daemon(&facts.daemon, out);
    if let Some(status) = facts.status() {
        version(facts.version, status, out);
        settings(facts, status, out);
    }
}

fn configuration(facts: &ConfigurationFacts, out: &mut Vec<Finding>) {
    let check = Check::Configuration;
    match facts {
        ConfigurationFacts::Right { from, warnings, .. } => {
            let title = match from.as_str() {
                "defaults" => "no configuration file; the defaults hold".to_owned(),
                from => format!("leafd would start with {from}"),
            };
            out.push(Finding::ok(check, title));
            for warning in warnings {
                let finding = Finding::warn(check, "leafd check warns").because(warning.as_str());
                out.push(finding.remedy("Do what it says, or change the key that it names."));
            }
        }
        ConfigurationFacts::Wrong(what) => out.push(
            Finding::bad(check, "leafd would not start with the configuration")
                .because(what.as_str())
                .remedy(
                    "Correct it until `leafd check` is content. A running leafd is not affected.",
                ),
        ),
        ConfigurationFacts::Unreadable(what) => out.push(
            Finding::unknown(check, "this user may not read the configuration")
                .because(what.as_str())
                .remedy("Run this as root or as leafd's user; it then checks the store, too."),
        ),
    }
}

fn daemon(facts: &DaemonFacts, out: &mut Vec<Finding>) {
    let check = Check::Daemon;
    out.push(match facts {
        DaemonFacts::Up { .. } => Finding::ok(check, "leafd answers"),
        DaemonFacts::Down(why) => Finding::bad(check, "leafd does not run")
            .because(why.as_str())
            .remedy("Start it (systemctl start leafd); `journalctl -u leafd` says why it ended."),
        DaemonFacts::Silent(why) => Finding::bad(check, "leafd does not answer as it should")
            .because(why.as_str())
            .remedy("See `journalctl -u leafd`; restart it if it hangs, which repeats no ID."),
        DaemonFacts::Closed(why) => Finding::unknown(check, "this user may not ask leafd")
            .because(why.as_str())
            .remedy("Run this as root or as leafd's user, or join the socket's group."),
    });
}

fn version(own: &str, status: &DaemonStatus, out: &mut Vec<Finding>) {
    let running = &status.version;
    out.push(if running == own {
        Finding::ok(Check::Version, format!("leafd and leafctl are both {own}"))
    } else {
        Finding::warn(Check::Version, format!("leafd is {running}, and leafctl is {own}"))
            .because("An upgrade that was not followed by a restart looks like this.")
            .remedy("Restart leafd, or use the leafctl that came with it.")
    });
}

/// Compares what runs with what a start would bring.
fn settings(facts: &Facts, status: &DaemonStatus, out: &mut Vec<Finding>) {
    let ConfigurationFacts::Right { config, from, modified_ms, .. } = &facts.configuration else {
        return;
    };
    let check = Check::Settings;
    let differences = differences(config, status);
    if !differences.is_empty() {
        out.push(
            Finding::warn(check, "leafd runs with other settings than these")
                .because(format!("From {from}: {}.", differences.join("; ")))
                .remedy(
                    "Restart leafd; or pass doctor the file (--config) and the LEAFD_ variables that \
                     leafd was started with.",
                ),
        );
        return;
    }
    let started_ms = facts.now_ms.saturating_sub(status.uptime_ms);
    if modified_ms.is_some_and(|modified| modified > started_ms.saturating_add(READ_BEFORE_MS)) {
        out.push(
            Finding::note(check, "the configuration was changed after leafd started")
                .because(format!("Unless somebody has reloaded {from}, leafd does not use it yet."))
                .remedy(
                    "`systemctl reload leafd`; keys that a reload does not apply need a restart.",
                ),
        );
        return;
    }
    out.push(Finding::ok(check, "leafd runs with these settings"));
}

/// The settings that a status shows and that differ from the configuration's.
fn differences(config: &Config, status: &DaemonStatus) -> Vec<String> {
    let snowflake = &status.snowflake;
    let mut differences = Vec::new();
    let mut compare = |key: &str, running: &str, here: &str| {
        if running != here {
            differences.push(format!("{key} is {here}, and leafd has {running}"));
        }
    };
    if let Some(dir) = &config.state.dir {
        compare("state.dir", &status.state_dir, &dir.display().to_string());
    }
    if let Some(here) = config.store_location().ok().and_then(|location| location.shown()) {
        if !status.segments.store.starts_with(&here) {
            let key = match config.store.kind {
                StoreKind::Redis => "redis.servers",
                StoreKind::Several => "store.urls",
                StoreKind::Sqlite | StoreKind::MySql | StoreKind::Postgres => "store.url",
            };
            compare(key, &status.segments.store, &here);
        }
    } else if !status.segments.store.starts_with("sqlite ") {
        compare("store.kind", &status.segments.store, "sqlite");
    }
    if config.snowflake.enabled {
        compare("snowflake.layout", &snowflake.layout, &config.snowflake.layout.to_string());
        compare("worker.registry", &snowflake.registry, config.worker.registry.name());
        if config.worker.registry == RegistryKind::Fixed
            && snowflake.registry == config.worker.registry.name()
            && let Some(worker) = snowflake.worker
        {
            compare("worker.id", &worker.to_string(), &config.worker.id.to_string());
        }
    }
    differences
}

pub(super) fn judge_socket(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Socket;
    let SocketFacts { path, clients_look_at, mode, group, owner } = &facts.socket;
    let at = path.display();
    let Some(mode) = mode else {
        // The daemon's finding says why nobody answers.
        if matches!(facts.daemon, DaemonFacts::Up { .. } | DaemonFacts::Closed(_)) {
            out.push(
                Finding::unknown(check, "cannot see who may connect")
                    .because(format!("This user may not look at {at}.")),
            );
        }
        return;
    };
    if clients_look_at != path {
        let title = "clients look for the socket elsewhere";
        let look = clients_look_at.display();
        out.push(Finding::note(check, title).because(format!(
            "leafd listens at {at}; a client of this user that is told nothing looks at {look}."
        )).remedy(format!("Set LEAFD_SOCKET={at} for the applications.")));
    }
    let has_rules = facts.config().is_some_and(|config| !config.access.rules.is_empty());
    let who = match (mode & 0o006 == 0o006, mode & 0o060 == 0o060) {
        (true, _) => "every user of this host".to_owned(),
        (false, true) => format!("{owner} and the group {group}"),
        (false, false) => owner.clone(),
    };
    // A daemon that refuses this user may have other rules than the configuration that was read.
    let is_closed = matches!(facts.daemon, DaemonFacts::Closed(_));
    if let ConfigurationFacts::Right { from, .. } = &facts.configuration
        && mode & 0o006 == 0o006
        && !has_rules
        && !is_closed
    {
        out.push(
            Finding::note(check, "every user of this host may get IDs")
                .because(format!(
                    "{at} has mode {:04o}, and the configuration ({from}) has no access.rules.",
                    mode & 0o7777
                ))
                .remedy("If that is not meant, set socket.mode = \"0660\", or write access.rules."),
        );
        return;
    }
    let may =
        if is_closed { "may connect, unless access.rules say otherwise" } else { "may connect" };
    out.push(Finding::ok(check, format!("{who} {may}")).because(format!(
        "{at} has mode {:04o}{}.",
        mode & 0o7777,
        if has_rules { ", and access.rules decide further" } else { "" }
    )));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::sample::{config, healthy, of, running};
    use crate::doctor::{Level, examine};

    #[test]
    fn a_wrong_configuration_is_bad_and_an_unreadable_one_unknown() {
        let mut facts = healthy();
        facts.configuration = ConfigurationFacts::Wrong("worker.id: 9999".to_owned());
        let found = of(&facts, Check::Configuration);
        assert_eq!(found.level, Level::Bad);
        assert!(found.detail.contains("9999"));
        facts.configuration = ConfigurationFacts::Unreadable("Permission denied".to_owned());
        assert_eq!(of(&facts, Check::Configuration).level, Level::Unknown);
        facts.configuration = config("");
        if let ConfigurationFacts::Right { warnings, .. } = &mut facts.configuration {
            warnings.push("socket.path is relative".to_owned());
        }
        assert!(examine(&facts).iter().any(|finding| finding.detail.contains("is relative")));
    }

    #[test]
    fn a_daemon_that_is_down_hangs_or_refuses_is_told_apart() {
        let mut facts = healthy();
        for (daemon, level, title) in [
            (DaemonFacts::Down("x".into()), Level::Bad, "does not run"),
            (DaemonFacts::Silent("x".into()), Level::Bad, "does not answer"),
            (DaemonFacts::Closed("x".into()), Level::Unknown, "may not ask"),
        ] {
            facts.daemon = daemon;
            let found = of(&facts, Check::Daemon);
            assert!(found.level == level && found.title.contains(title), "{found:?}");
        }
    }

    #[test]
    fn another_version_is_a_warning() {
        let mut facts = healthy();
        facts.version = "9.9.9";
        let found = of(&facts, Check::Version);
        assert_eq!(found.level, Level::Warn);
        assert!(found.title.contains("9.9.9"));
    }

    #[test]
    fn settings_that_differ_from_the_running_ones_are_named() {
        for (toml, key) in [
            ("[worker]\nid = 8", "worker.id is 8, and leafd has 7"),
            ("[state]\ndir = \"/elsewhere\"\n[worker]\nid = 7", "state.dir is /elsewhere"),
            ("[snowflake]\nlayout = \"twitter\"\n[worker]\nid = 7", "snowflake.layout"),
            ("[store]\nkind = \"mysql\"\nurl = \"mysql://l@d/x\"\n[worker]\nid = 7", "store.url"),
        ] {
            let mut facts = healthy();
            facts.configuration = config(toml);
            let found = of(&facts, Check::Settings);
            assert_eq!(found.level, Level::Warn, "{toml}");
            assert!(found.detail.contains(key), "{}", found.detail);
        }
    }

    #[test]
    fn a_file_that_is_newer_than_the_daemon_is_a_note() {
        let mut facts = healthy();
        let started = facts.now_ms - running(&mut facts).uptime_ms;
        for (written_ms, level) in [(started - 5000, Level::Ok), (started + 5000, Level::Note)] {
            if let ConfigurationFacts::Right { modified_ms, .. } = &mut facts.configuration {
                *modified_ms = Some(written_ms);
            }
            assert_eq!(of(&facts, Check::Settings).level, level);
        }
    }

    #[test]
    fn the_socket_says_who_may_connect() {
        let mut facts = healthy();
        assert!(of(&facts, Check::Socket).title.contains("the group apps"));
        facts.socket.mode = Some(0o140_600);
        assert_eq!(of(&facts, Check::Socket).title, "leafd may connect");
        facts.socket.mode = Some(0o140_666);
        let found = of(&facts, Check::Socket);
        assert_eq!(found.level, Level::Note);
        assert!(found.detail.contains("0666"), "{}", found.detail);
        assert!(found.detail.contains("has no access.rules"), "{}", found.detail);
        // Its rules are not those of the configuration that was read.
        let answers = std::mem::replace(&mut facts.daemon, DaemonFacts::Closed("206".into()));
        let found = of(&facts, Check::Socket);
        assert_eq!(found.level, Level::Ok);
        assert!(found.title.contains("unless access.rules say otherwise"), "{}", found.title);
        facts.daemon = answers;
        facts.configuration = config(
            "[worker]\nid = 7\n[store]\nkind = \"postgres\"\nurl = \"postgres://leaf@db/leaf\"\n\
             [[access.rules]]\nusers = [\"*\"]",
        );
        assert_eq!(of(&facts, Check::Socket).level, Level::Ok);
        facts.socket.clients_look_at = "/elsewhere".into();
        let found = of(&facts, Check::Socket);
        assert_eq!(found.level, Level::Note);
        assert!(found.remedy.contains("LEAFD_SOCKET="), "{}", found.remedy);
        facts.socket.mode = None;
        assert_eq!(of(&facts, Check::Socket).level, Level::Unknown);
    }
}
