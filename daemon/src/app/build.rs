//! Builds the daemon from the inside out: state, store, segments, snowflakes.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::owner::{foreign_policy, owner};
use super::snowflake::Snowflake;
use super::store::{Remembered, inodes};
use super::{lend, paths, store};
use crate::config::Config;
use crate::environment::Environment;
use crate::forecast::RateKeeper;
use crate::segment::messages::BufferRules;
use crate::segment::service::{SegmentSettings, Segments};
use crate::state::dir::{StateContents, StateDir};
use crate::state::lease_log::LeaseLog;
use crate::state::owner::StateOwner;
use crate::state::rate_file::RateFile;
use crate::state::write_tally::WriteTally;
use crate::state::writer::Writer;
use crate::worker::lending::Lending;

/// Everything that serves requests.
pub(super) struct Daemon {
    pub(super) segments: Segments,
    pub(super) snowflake: Snowflake,
    pub(super) lending: Lending,
    /// Cancelled when an essential task panics.
    pub(super) fatal: CancellationToken,
    pub(super) state: StateDir,
    /// What writes to it cost.
    pub(super) writes: Arc<WriteTally>,
    pub(super) rates: RateKeeper,
    /// How often leafd has started on it.
    pub(super) starts: u64,
}

/// Builds the daemon. `peer` is a peer port that the service manager has passed.
pub(super) async fn build(
    config: &Config,
    peer: Option<TcpListener>,
    environment: &Environment,
) -> Result<Daemon, Failure> {
    let state = StateDir::lock(&paths::state_dir(config), environment)?.with_inodes(inodes(config));
    // Check these before touching the directory: a wrong configuration changes nothing.
    let location = config.store_location()?;
    let secrets = paths::store_secrets(config)?;
    let here = owner(config, &location);
    let contents = state.open(&here, foreign_policy(config, &location))?;
    tell(config, &state, &here, &contents)?;
    let mut remembered = Remembered::of(&contents);
    let StateContents { journal, worker, generation, .. } = contents;
    let settings = segment_settings(config, journal.base());
    let retired = journal.retired().clone();
    let fatal = CancellationToken::new();
    let writer = Writer::start(environment, state.place(), generation, journal, &fatal)
        .map_err(|error| Failure::system("cannot start a thread", &error))?;
    writer.log_leases_to(LeaseLog::new(state.path(), &here.machine, &here.identity, &here.store));
    let store =
        store::open(config, location, secrets, &state, &here, &mut remembered, &writer).await?;
    let segments = Segments::start(
        settings,
        environment.clone(),
        store,
        writer.clone(),
        (&remembered.tags, retired),
        &fatal,
    );
    let rates = RateFile::new(state.place(), &here);
    let rates = RateKeeper::start(rates, segments.clone(), environment.clone());
    let writes = writer.tally();
    let snowflake = Snowflake::start(config, environment.clone(), &worker, peer, writer, &fatal)?;
    let lending = lend::start(config, environment, &fatal)?;
    Ok(Daemon { segments, snowflake, lending, fatal, state, writes, rates, starts: generation })
}

/// Logs what leafd found in the state directory.
fn tell(
    config: &Config,
    state: &StateDir,
    here: &StateOwner,
    contents: &StateContents,
) -> Result<(), Failure> {
    if here.is_anonymous() {
        tracing::warn!(
            "this machine has no ID, so a copy of its state directory would not be recognised; \
             set state.machine-id or worker.identity"
        );
    }
    for warning in &contents.warnings {
        tracing::error!("state directory {}: {warning}", state.path().display());
    }
    for note in &contents.notes {
        tracing::info!("state directory {}: {note}", state.path().display());
    }
    warn_of_blind_spots(config, state)
}

/// Warns if leafd has neither stable inode numbers nor birth times to recognise a copy by.
fn warn_of_blind_spots(config: &Config, state: &StateDir) -> Result<(), Failure> {
    if config.state.unstable_inodes && !state.has_time()? {
        tracing::warn!(
            "state.unstable-inodes is set, and the file system of {} does not know when files were \
             made: a state directory that is restored or copied is not noticed, and repeats IDs",
            state.path().display()
        );
    }
    Ok(())
}

fn segment_settings(config: &Config, base: u64) -> SegmentSettings {
    let segment = &config.segment;
    SegmentSettings {
        base,
        retire_after: segment.retire_after,
        rules: BufferRules {
            max_step: segment.max_step,
            max_waiting: segment.max_waiting,
            // A tag that leafd creates on first use is never unknown.
            absent_for: if config.makes_tags() { Duration::ZERO } else { segment.unknown_for },
        },
        auto_create: config.makes_tags(),
        default_step: segment.default_step,
        max_tags: segment.max_tags,
        refresh: segment.refresh,
        store_calls: config.store.max_connections,
    }
}
