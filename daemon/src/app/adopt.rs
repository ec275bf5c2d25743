//! `leafd adopt`: an operator's word that the state directory is this host's.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;

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
    let now_ms = Clock::system().now_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        return Err(Failure::config(format!(
            "the clock is wrong, and adopt goes by it: {why}. Set the clock right (NTP), then \
             run this again"
        )));
    }
    let directory = paths::state_dir(&config);
    is_ours(&directory)?;
    let state = StateDir::lock(&directory)?;
    let address = config.store_address()?;
    let here = owner(&config, address.as_ref());
    let database = paths::database(&config);
    let adopted = state.adopt(&here, now_ms + MARGIN_MS)?;
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

/// What was taken over as another user, leafd's own could not read any more; and what is not there
/// is not the directory that was meant.
fn is_ours(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    let owner = match std::fs::metadata(directory) {
        Ok(meta) => meta.uid(),
        Err(error) => {
            return Err(Failure::config(format!(
                "the state directory {shown} cannot be taken over: {error}. Name the right one by \
                 state.dir, LEAFD_STATE_DIR or STATE_DIRECTORY; without one, leafd needs no adopt"
            )));
        }
    };
    if owner != Uid::effective().as_raw() {
        return Err(Failure::config(format!(
            "the state directory {shown} belongs to uid {owner}; run this as that user: setpriv \
             --reuid {owner} --init-groups leafd adopt"
        )));
    }
    Ok(())
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
