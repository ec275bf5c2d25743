//! `leafd adopt`: an operator's word that the state directory is this host's.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;

use super::failure::Failure;
use super::owner::owner;
use super::store::{embedded, inodes};
use super::{load, paths, print};
use crate::config::Loaded;
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::safety::UNKNOWN_CEILING_MS;
use crate::state::adopt::{Above, Adopted, LeasedFrom};
use crate::state::dir::StateDir;
use crate::store::{
    self, DatabaseGuard, EmbeddedStore, IfMissing, StoreLocation, StoreSource, is_a_copy, take_over,
};

/// Takes the state directory over for this host. `above` has numbers, for all tags or as
/// `TAG=NUMBER`, that no ID has passed; `is_lost` confirms that a missing directory was lost.
///
/// # Errors
/// When leafd runs on it, nobody knows what was issued, or the disk refuses.
pub fn adopt(path: Option<&Path>, above: &[String], is_lost: bool) -> Result<(), Failure> {
    let mut known = Above::default();
    for word in above {
        known.add(word).map_err(|error| Failure::config(format!("--above {error}")))?;
    }
    let (Loaded { config, .. }, _) = load(path)?;
    let now_ms = Environment::system().unix_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        return Err(Failure::config(format!(
            "the clock is wrong, and adopt goes by it: {why}. Set the clock right (NTP), then \
             run this again"
        )));
    }
    let directory = paths::state_dir(&config);
    let store = config.store_location()?;
    is_there_or_lost(&directory, store.is_embedded(), known.is_given(), is_lost)?;
    let state = StateDir::lock(&directory)?.with_inodes(inodes(&config));
    let here = owner(&config, &store);
    let database = paths::database(&config);
    let from = match store {
        StoreLocation::Shared(_) => LeasedFrom::Shared,
        StoreLocation::Embedded => {
            // An operator's word counts whatever the database says.
            let place = embedded(&config, IfMissing::Refuse);
            let recorded = state.database(&here.store)?;
            let has_identity = recorded.is_some_and(|recorded| recorded.identity.is_some());
            let is_there =
                is_not_empty(&database) && (known.is_given() || !is_copy(&place, has_identity)?);
            LeasedFrom::Embedded { is_there }
        }
    };
    let adopted = state.adopt(&here, now_ms + UNKNOWN_CEILING_MS, from, &known)?;
    for line in &adopted.done {
        print(&format!("{line}\n"))?;
    }
    // Its ranges are given up, so whichever database is found next is the right one.
    state.forget_database()?;
    print(&format!("taken over: {}\n", directory.display()))?;
    // A shared store is not ours to make, and its rows are moved by leases.
    if from == LeasedFrom::Shared {
        return Ok(());
    }
    let if_missing = if adopted.ends_are_known { IfMissing::Create } else { IfMissing::Refuse };
    let place = embedded(&config, if_missing);
    let path = place.path.display();
    match (take_database(&place, &adopted)?, if_missing) {
        (true, _) => print(&format!("{path} is this host's now\n")),
        (false, IfMissing::Create) => print(&format!("{path} was missing and is made anew\n")),
        (false, IfMissing::Refuse) => Err(Failure::no_ends(&place.path)),
    }
}

/// A directory that is not there may not be the one that was meant, so it is made only on an
/// operator's word: on what was issued, which is safe wherever it is given, or that it was lost.
fn is_there_or_lost(
    directory: &Path,
    is_embedded: bool,
    above_is_given: bool,
    is_lost: bool,
) -> Result<(), Failure> {
    let looked = std::fs::metadata(directory);
    if !looked.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return is_ours(directory);
    }
    if above_is_given || (is_lost && !is_embedded) {
        return Ok(());
    }
    let remedy = if is_embedded {
        "--above N`, where no tag has given an ID above N: find the highest in the tables of the \
         applications, and add a margin"
    } else {
        "--lost`"
    };
    Err(Failure::config(format!(
        "the state directory {} cannot be taken over: it is not there. If that is not the one that \
         was meant, name the right one by state.dir, LEAFD_STATE_DIR or STATE_DIRECTORY. If it was \
         lost, run `leafd adopt {remedy}. A host that has never issued an ID needs no adopt",
        directory.display()
    )))
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
                 state.dir, LEAFD_STATE_DIR or STATE_DIRECTORY"
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

/// Makes the database this host's, and moves its rows to where their tags go on, so that the first
/// leases are nothing to worry about. Returns whether there was one.
fn take_database(place: &EmbeddedStore, adopted: &Adopted) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("cannot start", &error))?;
    let taken = runtime.block_on(async {
        let was_there = take_over(place).await?;
        if was_there {
            raise_rows(place, adopted).await?;
        }
        Ok(was_there)
    });
    taken.map_err(|error: String| Failure::state("cannot take over the store", &error))
}

/// Rows that are read at once.
const PAGE: usize = 1000;

async fn raise_rows(place: &EmbeddedStore, adopted: &Adopted) -> Result<(), String> {
    let store = store::open(StoreSource::Embedded(place.clone()), DatabaseGuard::unrecorded())?;
    let mut after = String::new();
    loop {
        let rows = store.page(&after, PAGE).await.map_err(|error| error.to_string())?;
        let Some(last) = rows.last() else { break };
        last.tag.clone_into(&mut after);
        for row in rows {
            let Ok(tag) = BizTag::new(&row.tag) else { continue };
            let floor = adopted.floors.get(&tag).copied().unwrap_or(adopted.base);
            if row.leasable().is_some_and(|start| start < floor) {
                store.raise(&tag, floor).await.map_err(|error| error.to_string())?;
            }
        }
    }
    store.close().await;
    Ok(())
}

fn is_copy(place: &EmbeddedStore, has_identity: bool) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("cannot start", &error))?;
    let looked = runtime.block_on(is_a_copy(place, has_identity));
    looked.map_err(|error: String| Failure::state("cannot look at the store", &error))
}

fn is_not_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}
