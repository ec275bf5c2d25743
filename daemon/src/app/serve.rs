//! `leafd` itself: loads the configuration, starts the log and the runtime, and runs.

use std::path::Path;

use super::failure::Failure;
use super::run::run;
use super::{found, load};
use crate::environment::Environment;
use crate::log;
use crate::manager::Manager;
use crate::transport::inherited::Inherited;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start, or cannot stop in good order.
pub fn serve(path: Option<&Path>) -> Result<(), Failure> {
    // Before anything else is opened.
    let inherited = Inherited::from_environment();
    let manager = Manager::of_environment();
    let outcome =
        inherited.map_err(Into::into).and_then(|inherited| start(path, inherited, &manager));
    match &outcome {
        Ok(()) => manager.status("Stopped"),
        Err(failure) => manager.failed(failure.message()),
    }
    outcome
}

fn start(path: Option<&Path>, inherited: Inherited, manager: &Manager) -> Result<(), Failure> {
    // At a reload as well: that it has gone does not mean that there are no rules any more.
    let path = found(path);
    let (loaded, from) = load(path)?;
    let config = &loaded.config;
    // Dropped last, so that the last lines are written.
    let (log, _log) = log::start(&config.log)
        .map_err(|error| Failure::software(&format!("the log does not start: {error}")))?;
    tracing::info!(config = from, "leafd {}", env!("CARGO_PKG_VERSION"));
    let environment = Environment::system();
    let now_ms = environment.unix_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        tracing::error!("no snowflake IDs: {why}");
    }
    for warning in config.warnings(now_ms) {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start", &error))?;
    let outcome = runtime.block_on(run(path, &loaded, inherited, manager, log, environment));
    // A name that is being resolved has a thread of its own, which nobody can stop.
    runtime.shutdown_background();
    outcome
}
