//! `log.level`: which lines pass.

use tracing_subscriber::filter::{ParseError, Targets};

/// What passes at a level of the configuration.
///
/// # Errors
/// When `level` is neither a level nor a list of modules with levels.
pub fn filter(level: &str) -> Result<Targets, ParseError> {
    // A bare word would otherwise be read as a module that is logged in full.
    if !level.contains('=') && level.parse::<tracing::level_filters::LevelFilter>().is_err() {
        return format!("leafd={level}").parse();
    }
    // What matters of a session is told by leafd itself, once, and not at every try.
    if ["error", "warn", "info"].contains(&level.to_ascii_lowercase().as_str()) {
        return format!("{level},zookeeper_client=off").parse();
    }
    level.parse()
}
