//! `log.level`: which events leafd logs.

use tracing_subscriber::filter::{ParseError, Targets};

/// The levels.
pub(super) const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The filter for a value of `log.level`.
///
/// # Errors
/// When `level` is neither a level nor a list of modules with levels.
pub(crate) fn filter(level: &str) -> Result<Targets, ParseError> {
    // Without this, a misspelt level would be taken for a module to log in full.
    if !level.contains('=') && level.parse::<tracing::level_filters::LevelFilter>().is_err() {
        return format!("leafd={level}").parse();
    }
    // leafd itself logs what matters about a ZooKeeper session, once; its library logs every retry.
    if ["error", "warn", "info"].contains(&level.to_ascii_lowercase().as_str()) {
        return format!("{level},zookeeper_client=off").parse();
    }
    level.parse()
}
