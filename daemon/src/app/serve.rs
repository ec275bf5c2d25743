//! `leafd` without a command: loads the configuration, starts the log and the runtime, and runs.

use std::path::Path;

use leaf_client::wire::ErrorCode;

use super::failure::Failure;
use super::run::run;
use super::{found, load, runtime};
use crate::environment::Environment;
use crate::log;
use crate::manager::Manager;
use crate::transport::inherited::Inherited;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start, or cannot stop cleanly.
pub fn serve(path: Option<&Path>) -> Result<(), Failure> {
    // Take inherited descriptors before opening anything else.
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
    // Reloads use the same path: if the file has gone by then, that does not mean there are no
    // rules.
    let path = found(path);
    let (loaded, from) = load(path)?;
    let config = &loaded.config;
    // The guard is dropped last, and then writes the last lines.
    let (log, _log) = log::start(&config.log)
        .map_err(|error| Failure::software(&format!("the log does not start: {error}")))?;
    tracing::info!(config = from, "leafd {}", env!("CARGO_PKG_VERSION"));
    let environment = Environment::system();
    let now_ms = environment.unix_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        let is_early = now_ms < config.snowflake.layout.epoch_ms();
        let error = if is_early { ErrorCode::ClockBackwards } else { ErrorCode::TimeExhausted };
        tracing::error!(%error, "no snowflake IDs: {why}");
    }
    for warning in config.warnings(now_ms) {
        tracing::warn!("{warning}");
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(run(path, &loaded, inherited, manager, log, environment));
    // Do not wait for threads that resolve a name: nothing can stop them.
    runtime.shutdown_background();
    outcome
}
