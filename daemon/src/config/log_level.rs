//! `log.level`: which events leafd logs.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

use crate::actor::AUDIT;

/// SQLx logs every statement at DEBUG, and the watchers of a database would see nothing else.
const SQLX: &str = "sqlx";

/// leafd itself logs what matters about a ZooKeeper session, once; its library logs every retry.
const ZOOKEEPER: &str = "zookeeper_client";

/// The levels.
pub(super) const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The filter for a value of `log.level`.
///
/// # Errors
/// When `level` is neither a level nor a list of modules with levels.
pub(crate) fn filter(level: &str) -> Result<Targets, ParseError> {
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
    fn a_value_that_is_no_level_is_refused() {
        for level in ["loud", "leafd::segment", "info,leafd=loud"] {
            assert!(filter(level).is_err(), "{level:?}");
        }
    }
}
