//! `leafd adopt`: an operator's word that the state directory is this host's.

use std::path::Path;

use super::failure::Failure;
use super::serve::owner;
use super::{load, paths, print};
use crate::clock::Clock;
use crate::config::Loaded;
use crate::segment::store::{IfMissing, Store, sqlite};
use crate::state::dir::StateDir;

/// No ceiling is ever further ahead of the clock than this, so IDs that were issued before lie
/// below it, if the clock is right.
const MARGIN_MS: u64 = 11_000;

/// Takes the state directory over for this host.
///
/// # Errors
/// When leafd runs on it, or the disk refuses.
pub fn adopt(path: Option<&Path>) -> Result<(), Failure> {
    let (Loaded { config, .. }, _) = load(path)?;
    let state = StateDir::lock(&paths::state_dir(&config))?;
    let address = config.store_address()?;
    let here = owner(&config, address.as_ref());
    let database = paths::database(&config);
    let adopted = state.adopt(&here, Clock::system().now_ms() + MARGIN_MS)?;
    for line in adopted.done {
        print(&format!("{line}\n"))?;
    }
    // A shared store is not ours to make.
    if address.is_some() || database.exists() {
        return Ok(());
    }
    if !adopted.ends_are_known {
        return Err(Failure::no_ends(&database));
    }
    make_database(&database, config.store.timeout)?;
    print(&format!("{} was missing and is made anew\n", database.display()))
}

fn make_database(path: &Path, timeout: std::time::Duration) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("cannot start", &error))?;
    runtime.block_on(async {
        let store = sqlite(path, timeout, IfMissing::Create);
        let store = store.map_err(|error| Failure::software(&error))?;
        let made = store.list().await;
        store.close().await;
        made.map(drop).map_err(|error| Failure::state("cannot make the store", &error.to_string()))
    })
}
