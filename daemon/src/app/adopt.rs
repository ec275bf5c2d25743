//! `leafd adopt`: the operator confirms that the state directory is this host's.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;

use super::failure::Failure;
use super::owner::owner;
use super::store::{embedded, inodes};
use super::{load, paths, print, runtime};
use crate::config::Loaded;
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::safety::UNKNOWN_CEILING_MS;
use crate::state::adopt::{Above, Adopted, LeasedFrom};
use crate::state::dir::StateDir;
use crate::store::{
    self, DatabaseGuard, EmbeddedStore, IfMissing, StoreLocation, StoreSource, is_a_copy, take_over,
};

/// Takes over the state directory for this host. `above` has numbers above which no ID was issued,
/// for all tags or as `TAG=NUMBER`; `is_lost` confirms that a missing directory was lost.
///
/// # Errors
/// When leafd runs on the directory, when it is unknown what was issued, or when the disk fails.
pub fn adopt(path: Option<&Path>, above: &[String], is_lost: bool) -> Result<(), Failure> {
    let mut known = Above::default();
    for word in above {
        known.add(word).map_err(|error| Failure::config(format!("--above {error}")))?;
    }
    let (Loaded { config, .. }, _) = load(path)?;
    let environment = Environment::system();
    let now_ms = environment.unix_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        return Err(Failure::config(format!(
            "the clock is wrong, and adopt depends on it: {why}. Set the clock (NTP), then run this \
             again"
        )));
    }
    let directory = paths::state_dir(&config);
    let store = config.store_location()?;
    is_there_or_lost(&directory, store.is_embedded(), known.is_given(), is_lost)?;
    let state = StateDir::lock(&directory, &environment)?.with_inodes(inodes(&config));
    let here = owner(&config, &store);
    let database = paths::database(&config);
    let from = match store {
        StoreLocation::Embedded => {
            // The operator's numbers count, whatever the database says.
            let place = embedded(&config, &environment, IfMissing::Refuse);
            let recorded = state.database(&here.store)?;
            let has_identity = recorded.is_some_and(|recorded| recorded.identity.is_some());
            let is_there =
                is_not_empty(&database) && (known.is_given() || !is_copy(&place, has_identity)?);
            LeasedFrom::Embedded { is_there }
        }
        _ => LeasedFrom::Shared,
    };
    let adopted = state.adopt(&here, now_ms + UNKNOWN_CEILING_MS, from, &known)?;
    for line in &adopted.done {
        print(&format!("{line}\n"))?;
    }
    // No ranges are left, so leafd can lease from whichever database it finds next.
    state.forget_database()?;
    print(&format!("taken over: {}\n", directory.display()))?;
    // leafd does not create tables in a shared store, and leases move its rows.
    if from == LeasedFrom::Shared {
        return Ok(());
    }
    let if_missing = if adopted.ends_are_known { IfMissing::Create } else { IfMissing::Refuse };
    let place = embedded(&config, &environment, if_missing);
    let path = place.path.display();
    match (take_database(&place, &adopted)?, if_missing) {
        (true, _) => print(&format!("{path} is this host's now\n")),
        (false, IfMissing::Create) => print(&format!("{path} was missing; created a new one\n")),
        (false, IfMissing::Refuse) => Err(Failure::no_ends(&place.path)),
    }
}

/// Checks that the directory exists. A missing one may be the wrong one, so leafd creates it only
/// if the operator says what was issued, which is safe in any place, or that the directory was
/// lost.
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
        "--above N`, where N is at least the highest ID of any tag: find it in the tables of your \
         applications, and add a margin"
    } else {
        "--lost`"
    };
    Err(Failure::config(format!(
        "the state directory {} cannot be taken over: it does not exist. If you mean another one, \
         set state.dir, LEAFD_STATE_DIR or STATE_DIRECTORY. If it was lost, run `leafd adopt \
         {remedy}. A host that has never issued an ID needs no adopt",
        directory.display()
    )))
}

/// Checks that the directory exists and belongs to the current user. If another user changed it,
/// leafd's own user could not read it any more.
pub(super) fn is_ours(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    let owner = match std::fs::metadata(directory) {
        Ok(meta) => meta.uid(),
        Err(error) => {
            return Err(Failure::config(format!(
                "the state directory {shown} cannot be taken over: {error}. If you mean another \
                 one, set state.dir, LEAFD_STATE_DIR or STATE_DIRECTORY"
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

/// Makes the database this host's, and raises its rows to where their tags continue, so that the
/// first leases raise no alarm. Returns whether there was a database.
fn take_database(place: &EmbeddedStore, adopted: &Adopted) -> Result<bool, Failure> {
    let taken = runtime()?.block_on(async {
        let was_there = take_over(place).await?;
        if was_there {
            raise_rows(place, adopted).await?;
        }
        Ok(was_there)
    });
    taken.map_err(|error: String| Failure::state("cannot take over the store", &error))
}

/// Rows per page.
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
            let unknown = || adopted.base.max(adopted.retired.floor_of(&row.tag));
            let floor = adopted.floors.get(&tag).copied().unwrap_or_else(unknown);
            if row.leasable().is_some_and(|start| start < floor) {
                store.raise(&tag, floor).await.map_err(|error| error.to_string())?;
            }
        }
    }
    store.close().await;
    Ok(())
}

fn is_copy(place: &EmbeddedStore, has_identity: bool) -> Result<bool, Failure> {
    let looked = runtime()?.block_on(is_a_copy(place, has_identity));
    looked.map_err(|error: String| Failure::state("cannot look at the store", &error))
}

fn is_not_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}
