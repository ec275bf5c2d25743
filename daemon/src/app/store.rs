//! Opens the configured store, and checks that remembered ranges were leased from it before leafd
//! issues any of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::failure::Failure;
use super::paths;
use crate::config::{Config, StoreSecrets};
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::segment::other_database::{StateDirRecorder, drop_ranges, report_other_database};
use crate::state::dir::{StateContents, StateDir};
use crate::state::journal::TagRecord;
use crate::state::mark::Inodes;
use crate::state::owner::StateOwner;
use crate::state::writer::Writer;
#[cfg(feature = "redis")]
use crate::store::RedisStore;
use crate::store::witness::keeper::{KeeperParts, WitnessKeeper};
use crate::store::witness::memory::WitnessMemory;
use crate::store::{
    self, DatabaseGuard, EmbeddedStore, IfMissing, SeveralStores, SharedStore, Store, StoreLimits,
    StoreLocation, StoreSource, UnusableDatabase, may_be_another,
};

/// What the state directory remembers of the tags.
pub(super) struct Remembered {
    pub(super) tags: HashMap<BizTag, TagRecord>,
    /// Nothing was ever leased. Only a journal that is whole can say so.
    nothing_leased: bool,
}

impl Remembered {
    pub(super) fn of(contents: &StateContents) -> Self {
        let tags = contents.journal.tags().clone();
        let nothing_leased = contents.journal_is_whole && contents.journal.knows_nothing();
        Self { tags, nothing_leased }
    }
}

/// Opens the store. Before that, leafd drops the remaining ranges of another database.
pub(super) async fn open(
    config: &Config,
    location: StoreLocation,
    secrets: StoreSecrets,
    state: &StateDir,
    here: &StateOwner,
    remembered: &mut Remembered,
    writer: &Writer,
) -> Result<Arc<dyn Store>, Failure> {
    let nothing_leased = remembered.nothing_leased;
    let recorded = state.database(&here.store)?;
    if recorded.is_none() && !nothing_leased {
        tracing::error!("database.properties is damaged; leafd drops the remaining IDs");
        drop_ranges(&mut remembered.tags, writer).await.map_err(not_given_up)?;
    }
    // If nothing was leased, any database is right.
    let recorded = recorded.filter(|_| !nothing_leased).unwrap_or_default();
    let recorder = Arc::new(StateDirRecorder {
        writer: writer.clone(),
        place: here.store.clone(),
        environment: state.environment().clone(),
    });
    let witness = match &location {
        StoreLocation::Shared(_) => Some(witness(config, state, here, recorder.clone())?),
        _ => None,
    };
    let guard = DatabaseGuard::new(recorded, recorder, witness);
    let is_embedded = location.is_embedded();
    let if_missing = if nothing_leased { IfMissing::Create } else { IfMissing::Refuse };
    let here = (state.environment(), if_missing);
    let source = source(config, location, secrets, limits(config), here);
    let store = store::open(source, Arc::clone(&guard))
        .map_err(|error| Failure::config(format!("the store: {error}")))?;
    if is_embedded {
        let path = paths::database(config);
        if guard.recorded().identity.is_none() {
            forget_origin(&path, &mut remembered.tags, writer).await?;
        }
        look_at(&*store, &guard, &path, &mut remembered.tags, writer).await?;
    }
    Ok(store)
}

/// What this process knows of the witness table, which the database may have.
fn witness(
    config: &Config,
    state: &StateDir,
    here: &StateOwner,
    recorder: Arc<StateDirRecorder>,
) -> Result<Arc<WitnessKeeper>, Failure> {
    let environment = state.environment();
    let remembered = state.witness()?.and_then(|content| {
        let read = WitnessMemory::read(&content, environment.unix_ms() / 1000);
        let read = read.inspect_err(|damage| {
            tracing::warn!(
                "witness.properties is damaged, so leafd joins the table again: {damage}"
            );
        });
        read.ok()
    });
    let parts = KeeperParts {
        shown: shown_host(here),
        missing: config.missing_hosts(),
        environment: environment.clone(),
        recorder,
        remembered,
    };
    WitnessKeeper::new(parts).map_err(|error| Failure::system("no random bytes", &error))
}

/// What people call this host.
fn shown_host(here: &StateOwner) -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let name = Some(here.identity.clone()).filter(|name| !name.is_empty()).or(host);
    let name = name.unwrap_or_default();
    let plain = |char: &char| char.is_ascii_graphic() && !"|;".contains(*char);
    name.chars().filter(plain).take(100).collect()
}

/// The source of ranges that the configuration names.
pub(super) fn source(
    config: &Config,
    location: StoreLocation,
    secrets: StoreSecrets,
    limits: StoreLimits,
    (environment, if_missing): (&Environment, IfMissing),
) -> StoreSource {
    match location {
        StoreLocation::Embedded => StoreSource::Embedded(embedded(config, environment, if_missing)),
        StoreLocation::Shared(address) => {
            StoreSource::Shared(SharedStore { address, password: secrets.password, limits })
        }
        StoreLocation::Several(place) => StoreSource::Several(Box::new(SeveralStores {
            place: *place,
            password: secrets.password,
            limits,
            environment: environment.clone(),
        })),
        #[cfg(feature = "redis")]
        StoreLocation::Redis(place) => StoreSource::Redis(Box::new(RedisStore {
            place: *place,
            password: secrets.password,
            sentinel_password: secrets.sentinel_password,
            limits,
            default_step: config.segment.default_step,
            environment: environment.clone(),
        })),
    }
}

/// The bounds on the use of a shared store.
pub(super) const fn limits(config: &Config) -> StoreLimits {
    StoreLimits { timeout: config.store.timeout, connections: config.store.max_connections }
}

/// The embedded store's file, and how to open it.
pub(super) fn embedded(
    config: &Config,
    environment: &Environment,
    if_missing: IfMissing,
) -> EmbeddedStore {
    EmbeddedStore {
        path: paths::database(config),
        timeout: config.store.timeout,
        if_missing,
        inodes: inodes(config),
        environment: environment.clone(),
    }
}

/// Whether inode numbers help to recognise a restored or copied state directory.
pub(super) fn inodes(config: &Config) -> Inodes {
    if config.state.unstable_inodes { Inodes::Unstable } else { Inodes::Stable }
}

/// Drops ranges if no one recorded which embedded database they come from, as in state of leafd
/// 0.1.0, before leafd records the present database. If there is none, nobody else can have the
/// ranges.
async fn forget_origin(
    path: &Path,
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<(), Failure> {
    let is_there = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    if !is_there || remembered.values().all(|record| record.left.total() == 0) {
        return Ok(());
    }
    let dropped = drop_ranges(remembered, writer).await.map_err(not_given_up)?;
    tracing::info!(
        dropped,
        "the state does not record which database the leased ranges come from, as in earlier \
         versions; leafd drops them once, and tags continue above them"
    );
    Ok(())
}

/// Probes the embedded database before leafd issues any remembered range, which may come from
/// another database.
async fn look_at(
    store: &dyn Store,
    guard: &DatabaseGuard,
    path: &Path,
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<(), Failure> {
    let Err(error) = store.probe().await else { return Ok(()) };
    match guard.unusable() {
        Some(why @ UnusableDatabase::Copied { .. }) => {
            Err(Failure::config(format!("the store, {}: {why}", store.describe())))
        }
        Some(why @ UnusableDatabase::Other { .. }) => {
            let dropped = drop_ranges(remembered, writer).await.map_err(not_given_up)?;
            report_other_database(&why, dropped);
            guard.use_other().await.map_err(not_given_up)
        }
        None if may_be_another(path, guard.recorded().file) => {
            let dropped = drop_ranges(remembered, writer).await.map_err(not_given_up)?;
            tracing::error!(
                dropped,
                "{} is another file than the recorded one, and cannot be opened; leafd drops the \
                 remaining IDs: {error}",
                path.display()
            );
            Ok(())
        }
        // leafd serves the remembered ranges without the database.
        Some(
            UnusableDatabase::Lost { .. }
            | UnusableDatabase::Swapped { .. }
            | UnusableDatabase::NotRecorded(_),
        )
        | None => Ok(()),
    }
}

fn not_given_up(error: String) -> Failure {
    Failure::state("cannot drop the remaining IDs of another database", &error)
}
