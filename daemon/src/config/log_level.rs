//! `log.level`: which events leafd logs.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

use super::nearest::did_you_mean;
use crate::actor::AUDIT;

/// SQLx logs every statement at DEBUG, and the watchers of a database would see nothing else.
const SQLX: &str = "sqlx";

/// leafd itself logs what matters about a ZooKeeper session, once; its library logs every retry.
const ZOOKEEPER: &str = "zookeeper_client";

/// The levels.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// What is wrong with a value of `log.level`. tracing takes whatever it does not know for the name of a
/// module: with `wran,leafd::segment=debug` it would log nothing else, and nobody would know why.
pub(super) fn wrong(level: &str) -> Option<String> {
    let level = or_default(level);
    let wrong = level.split(',').find_map(|part| match part.split_once('=') {
        Some((module, level)) => not_a_module(module).or_else(|| not_a_level(level)),
        None => not_a_level(part),
    });
    wrong.or_else(|| filter(level).err().map(|error| format!("{level:?}: {error}")))
}

fn not_a_level(text: &str) -> Option<String> {
    if !text.is_empty() && text.parse::<LevelFilter>().is_ok() {
        return None;
    }
    let (known, near) = (LEVELS.join(", "), did_you_mean(text, LEVELS));
    Some(format!("{text:?} is not a level ({known}){near}"))
}

fn not_a_module(text: &str) -> Option<String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let is_level = LEVELS.contains(&text.to_lowercase().as_str());
    (is_level || !text.split("::").all(is_name)).then(|| {
        format!(
            "{text:?} is not a module; write it like \"info,leafd::segment=debug\", without spaces"
        )
    })
}

/// An empty text means "not set", as for every key. tracing would log errors only.
const fn or_default(level: &str) -> &str {
    if level.is_empty() { "info" } else { level }
}

/// The filter for a value of `log.level`.
///
/// # Errors
/// When `level` is neither a level nor a list of modules with levels.
pub(crate) fn filter(level: &str) -> Result<Targets, ParseError> {
    let level = or_default(level);
    // Without this, a misspelt level would be taken for a module to log in full.
    if !level.contains('=') && level.parse::<LevelFilter>().is_err() {
        return format!("leafd={level}").parse();
    }
    let targets: Targets = level.parse()?;
    let general = targets.default_level().unwrap_or(LevelFilter::OFF);
    let quiet = if general > LevelFilter::INFO { general } else { LevelFilter::OFF };
    let defaults = [
        // Nobody loses the audit by turning the log down.
        (AUDIT, LevelFilter::INFO),
        (SQLX, general.min(LevelFilter::INFO)),
        (ZOOKEEPER, quiet),
    ];
    let is_named = |name: &str| targets.iter().any(|(target, _)| target == name);
    let unnamed: Vec<_> = defaults.into_iter().filter(|(name, _)| !is_named(name)).collect();
    Ok(targets.with_targets(unnamed))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[track_caller]
    fn logs(level: &str, target: &str, at: Level) -> bool {
        filter(level).unwrap().would_enable(target, &at)
    }

    #[test]
    fn the_audit_shows_at_every_level_unless_it_is_named() {
        for level in ["info", "warn", "error", "off", "leafd=warn", "warn,leafd::segment=debug"] {
            assert!(logs(level, AUDIT, Level::INFO), "{level}");
        }
        for level in ["info,audit=off", "audit=error,info"] {
            assert!(!logs(level, AUDIT, Level::INFO), "{level}");
        }
        assert!(!logs("off", "leafd::segment", Level::ERROR));
        assert!(logs("", "leafd::segment", Level::INFO), "an empty text means the default");
    }

    #[test]
    fn statements_of_the_database_show_only_if_sqlx_is_named() {
        let (statement, slow) = (Level::DEBUG, Level::WARN);
        for level in ["debug", "trace", "info,leafd::segment=debug", "debug,leafd::store=trace"] {
            assert!(!logs(level, "sqlx::query", statement), "{level}");
            assert!(logs(level, "sqlx::query", slow), "{level}");
        }
        for level in ["debug,sqlx=debug", "info,sqlx::query=debug"] {
            assert!(logs(level, "sqlx::query", statement), "{level}");
        }
        assert!(!logs("error", "sqlx::query", slow));
        assert!(logs("debug", "leafd::segment::lease", Level::DEBUG));
    }

    #[test]
    fn the_library_of_zookeeper_shows_from_debug_on() {
        for level in ["info", "warn", "info,leafd::worker=debug"] {
            assert!(!logs(level, "zookeeper_client::session", Level::ERROR), "{level}");
        }
        assert!(logs("debug", "zookeeper_client::session", Level::DEBUG));
        assert!(logs("warn,zookeeper_client=info", "zookeeper_client::session", Level::INFO));
    }

    #[test]
    fn a_misspelt_level_is_no_module_and_a_misspelt_module_is_refused() {
        for level in ["info", "WARN", "off", "3", "", "leafd=warn", "info,leafd::segment=debug"] {
            assert_eq!(wrong(level), None, "{level:?}");
        }
        for (level, why) in [
            (
                "debgu",
                "\"debgu\" is not a level (error, warn, info, debug, trace, off); did you mean debug?",
            ),
            ("wran,leafd::segment=debug", "off); did you mean warn?"),
            ("info,leafd=lod", "\"lod\" is not a level"),
            ("info,", "\"\" is not a level"),
            ("info;audit=off", "\"info;audit\" is not a module; write it like"),
            ("info, leafd::segment=debug", "\" leafd::segment\" is not a module"),
            ("leafd:segment=debug", "\"leafd:segment\" is not a module"),
            ("info=debug", "\"info\" is not a module"),
            ("=debug", "\"\" is not a module"),
        ] {
            let found = wrong(level).unwrap_or_default();
            assert!(found.contains(why), "{level:?}: {found}");
        }
    }

    #[test]
    fn a_value_that_is_no_level_is_refused() {
        for level in ["loud", "leafd::segment", "info,leafd=loud"] {
            assert!(filter(level).is_err(), "{level:?}");
        }
    }
}
