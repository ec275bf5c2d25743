//! The log: to standard error, by `tracing`, written by a thread of its own so that a terminal or
//! a pipe that blocks never blocks who serves.

use std::io::{self, IsTerminal};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::config::{Log, LogFormat};

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

/// Starts the log. Lines still unwritten are written when the guard is dropped.
///
/// # Errors
/// When the level is not one; [`crate::config`] has checked that.
pub fn start(log: &Log) -> Result<WorkerGuard, ParseError> {
    let filter = filter(&log.level)?;
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let lines = fmt::layer().with_writer(writer);
    let lines = match log.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Auto | LogFormat::Human => {
            lines.with_target(false).with_ansi(io::stderr().is_terminal()).boxed()
        }
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok(guard)
}
