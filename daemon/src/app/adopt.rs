//! `leafd adopt`: an operator's word that the state directory is this host's.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;

use super::failure::Failure;
use super::serve::{embedded, owner};
use super::{load, paths, print};
use crate::clock::Clock;
use crate::config::Loaded;
use crate::segment::store::{Embedded, IfMissing, take_over};
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
    let adopted = state.adopt(&here, now_ms + MARGIN_MS)?;
    for line in adopted.done {
        print(&format!("{line}\n"))?;
    }
    // Its ranges are given up, so whichever database is found next is the right one.
    state.forget_database()?;
    // A shared store is not ours to make.
    if address.is_some() {
        return Ok(());
    }
    let if_missing = if adopted.ends_are_known { IfMissing::Create } else { IfMissing::Refuse };
    let place = embedded(&config, if_missing);
    let path = place.path.display();
    match (take_over_database(&place)?, if_missing) {
        (true, _) => print(&format!("{path} is this host's now\n")),
        (false, IfMissing::Create) => print(&format!("{path} was missing and is made anew\n")),
        (false, IfMissing::Refuse) => Err(Failure::no_ends(&place.path)),
    }
}

/// What was taken over as another user, leafd's own could not read any more; and what is not there
/// is not the directory that was meant.
pub(super) fn is_ours(directory: &Path) -> Result<(), Failure> {
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

fn take_over_database(place: &Embedded) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("cannot start", &error))?;
    let taken = runtime.block_on(take_over(place));
    taken.map_err(|error| Failure::state("cannot take over the store", &error))
}
