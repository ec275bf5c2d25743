//! Logs `tracing` events to standard error or systemd's journal. A separate thread writes them, so
//! that a terminal, pipe or journal that blocks never blocks a request.

mod journald;
mod lines;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use self::journald::{JournalLayer, JournalWriter};
use self::lines::LineFormat;
use crate::config::log_level::filter;
use crate::config::{LogFormat, LogSection};
use crate::patience::within;

/// How long the last lines may take when leafd ends. tracing's own guard gives up sooner.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Lines that may wait for a terminal, pipe or journal that blocks; leafd drops further ones. The queue takes
/// its memory at the start, 32 bytes a line, and the default of tracing-appender is 128,000 lines.
const MAX_WAITING_LINES: usize = 8192;

/// Changes the level while leafd runs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Handle(reload::Handle<Targets, Registry>);

impl Handle {
    /// Logs by `level` from now on.
    ///
    /// # Errors
    /// When `level` is neither a level nor a list of modules with levels; then nothing changes.
    pub(crate) fn set_level(&self, level: &str) -> Result<(), ParseError> {
        let filter = filter(level)?;
        // This fails once the log has ended, when there is nothing left to change.
        let _ = self.0.reload(filter);
        Ok(())
    }
}

/// Dropping this writes the remaining lines. It takes no longer than [`LAST_LINES`], because
/// perhaps nobody reads them.
#[derive(Debug)]
pub(crate) struct LogGuard(Option<WorkerGuard>);

impl Drop for LogGuard {
    fn drop(&mut self) {
        let guard = self.0.take();
        // tracing's guard has a time limit too, except if its queue is full: then it prints to
        // standard output, which may be the same blocked pipe.
        within(LAST_LINES, move || drop(guard));
    }
}

/// Starts the log. Dropping the guard writes the remaining lines.
///
/// # Errors
/// When the level is invalid, which [`crate::config`] has ruled out.
pub(crate) fn start(log: &LogSection) -> Result<(Handle, LogGuard), ParseError> {
    let (filter, handle) = reload::Layer::new(filter(&log.level)?);
    let (lines, guard) = match log.format {
        LogFormat::Auto if journald::is_standard_error() => journal(),
        LogFormat::Journald => journal(),
        LogFormat::Json => {
            let (writer, guard) = in_background(io::stderr());
            (fmt::layer().with_writer(writer).json().flatten_event(true).boxed(), guard)
        }
        LogFormat::Auto | LogFormat::Human => {
            let (writer, guard) = in_background(io::stderr());
            let lines = fmt::layer().with_writer(writer).with_ansi(is_coloured());
            (lines.event_format(LineFormat::default()).boxed(), guard)
        }
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok((Handle(handle), LogGuard(Some(guard))))
}

/// Whether to colour the log: on a terminal, unless NO_COLOR is set (<https://no-color.org>).
fn is_coloured() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !unwanted
}

fn in_background<W: io::Write + Send + 'static>(writer: W) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().buffered_lines_limit(MAX_WAITING_LINES).finish(writer)
}

fn journal() -> (Box<dyn Layer<Registry> + Send + Sync>, WorkerGuard) {
    let journal = JournalWriter::new(Path::new(journald::SOCKET), io::stderr());
    let (writer, guard) = in_background(journal);
    (JournalLayer::new(writer).boxed(), guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_target_for_those_who_debug_and_in_the_audit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = std::sync::Mutex::new(std::fs::File::create(&path).unwrap());
        let lines = fmt::layer().with_writer(file).with_ansi(false);
        let lines = lines.event_format(LineFormat::default());
        let lines = lines.with_filter(filter("debug").unwrap());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::debug!(count = 1, "one");
            tracing::info!("two");
            tracing::error!("three");
            tracing::info!(target: crate::actor::AUDIT, "four");
        });
        let log = std::fs::read_to_string(&path).unwrap();
        let told: Vec<_> = log.lines().filter_map(|line| line.split_once("Z ")).collect();
        let told: Vec<_> = told.iter().map(|(_, text)| text.trim_start()).collect();
        let debug = format!("DEBUG {}: one count=1", module_path!());
        assert_eq!(told, [debug.as_str(), "INFO two", "ERROR three", "INFO audit: four"]);
    }

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
        // The log has ended by now.
        handle.set_level("debug").unwrap();
    }
}
