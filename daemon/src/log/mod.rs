//! The log: to standard error or to systemd's journal, by `tracing`, written by a thread of its own
//! so that a terminal, a pipe or a journal that blocks never blocks who serves.

mod journald;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::journald::{Journal, Lines};
use crate::config::log_level::filter;
use crate::config::{Log, LogFormat};
use crate::patience::within;

/// How long the last lines may take at the end. The worker's own guard gives up sooner.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Changes the log while it is written. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle(reload::Handle<Targets, Registry>);

impl Handle {
    /// From here on, what passes at `level` is logged.
    ///
    /// # Errors
    /// When `level` is neither a level nor a list of modules with levels; nothing changes then.
    pub fn set_level(&self, level: &str) -> Result<(), ParseError> {
        let filter = filter(level)?;
        // It fails when the log has ended, and then there is nothing to change.
        let _ = self.0.reload(filter);
        Ok(())
    }
}

/// Dropping it writes the lines that are still unwritten, but takes no longer than `LAST_LINES`:
/// nobody may read them.
#[derive(Debug)]
pub struct Guard(Option<WorkerGuard>);

impl Drop for Guard {
    fn drop(&mut self) {
        let guard = self.0.take();
        // The worker's own guard waits for a bounded time too, unless its queue is full: then it
        // prints to standard output, which may be the same pipe.
        within(LAST_LINES, move || drop(guard));
    }
}

/// Starts the log. Lines still unwritten are written when the guard is dropped.
///
/// # Errors
/// When the level is not one; [`crate::config`] has checked that.
pub fn start(log: &Log) -> Result<(Handle, Guard), ParseError> {
    let (filter, handle) = reload::Layer::new(filter(&log.level)?);
    let (lines, guard) = match log.format {
        LogFormat::Auto if journald::is_standard_error() => journal(),
        LogFormat::Journald => journal(),
        LogFormat::Json => {
            let (writer, guard) = tracing_appender::non_blocking(io::stderr());
            (fmt::layer().with_writer(writer).json().flatten_event(true).boxed(), guard)
        }
        LogFormat::Auto | LogFormat::Human => {
            let (writer, guard) = tracing_appender::non_blocking(io::stderr());
            let lines = fmt::layer().with_writer(writer);
            (lines.with_target(false).with_ansi(is_coloured()).boxed(), guard)
        }
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok((Handle(handle), Guard(Some(guard))))
}

/// Colours are for terminals, unless somebody wants none: <https://no-color.org>.
fn is_coloured() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !unwanted
}

fn journal() -> (Box<dyn Layer<Registry> + Send + Sync>, WorkerGuard) {
    let journal = Journal::new(Path::new(journald::SOCKET), io::stderr());
    let (writer, guard) = tracing_appender::non_blocking(journal);
    (Lines::new(writer).boxed(), guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_can_be_changed_and_a_wrong_one_changes_nothing() {
        let (filter, handle) = reload::Layer::new(filter("info").unwrap());
        let handle = Handle(handle);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = std::sync::Mutex::new(std::fs::File::create(&path).unwrap());
        let lines = fmt::layer().with_writer(file).with_ansi(false).with_filter(filter);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::debug!("one");
            handle.set_level("debug").unwrap();
            tracing::debug!("two");
            assert!(handle.set_level("leafd=loud").is_err());
            tracing::debug!("three");
            handle.set_level("warn").unwrap();
            tracing::info!("four");
            tracing::warn!("five");
        });
        let log = std::fs::read_to_string(&path).unwrap();
        let told: Vec<_> = log.lines().filter_map(|line| line.split(' ').next_back()).collect();
        assert_eq!(told, ["two", "three", "five"]);
        // The log has ended.
        handle.set_level("debug").unwrap();
    }
}
