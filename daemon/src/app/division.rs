//! `leafd division`: gives databases their shares of the IDs, shows them, and closes one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Failure, load_with, paths, print, runtime};
use crate::config::{Config, Loaded, Problem};
use crate::environment::Environment;
use crate::state::database::DatabaseIdentity;
use crate::store::several::division::{
    DivisionPlan, MemberView, add, complete_rows, found, plan, view,
};
use crate::store::several::{BLOCK, Division, MemberStore, Membership, SHARES};
use crate::store::{
    SeveralPlace, SeveralStores, StoreError, StoreLimits, StoreLocation, open_members,
};

/// A command of `leafd division`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DivisionRequest {
    /// Give a share to each database that has none.
    Make {
        /// How many shares a new division has.
        shares: u64,
        /// IDs in a block of a new division.
        block: u64,
    },
    /// Show what every database says.
    Show,
    /// Close a share for leases, or open it again. Users count shares from 1 on.
    SetClosed {
        /// The share.
        share: u64,
        /// Whether to close it.
        closed: bool,
    },
}

/// Connections to each database.
const CONNECTIONS: usize = 2;

/// How often what looks wrong is read again.
const READINGS: u32 = 3;

/// `leafd division`.
///
/// # Errors
/// When a database cannot be reached, or refuses.
pub fn division(path: Option<&Path>, request: DivisionRequest) -> Result<(), Failure> {
    let (Loaded { config, .. }, _) = load_with(path, |_| Vec::new())?;
    let place = place(&config)?;
    let password = paths::store_secrets(&config)
        .map_err(|error| Failure::config(format!("the store's password: {}", error.problem())))?;
    let environment = Environment::system();
    let source = SeveralStores {
        place: place.clone(),
        password: password.password,
        // An operator waits; a server that starts may be slow.
        limits: StoreLimits {
            timeout: config.store.timeout.max(Duration::from_secs(5)),
            connections: CONNECTIONS,
        },
        environment: environment.clone(),
    };
    runtime()?.block_on(async {
        let stores = open_members(&source)
            .map_err(|error| Failure::config(format!("the store: {error}")))?;
        let outcome = match request {
            DivisionRequest::Make { shares, block } => {
                make(&stores, &place, shares, block, &environment).await
            }
            DivisionRequest::Show => show(&stores, &place).await,
            DivisionRequest::SetClosed { share, closed } => {
                set_closed(&stores, &place, share, closed).await
            }
        };
        for store in &stores {
            store.close().await;
        }
        outcome
    })
}

fn place(config: &Config) -> Result<SeveralPlace, Failure> {
    match config.store_location()? {
        StoreLocation::Several(place) => Ok(*place),
        _ => Err(Problem::new(
            "store.kind",
            "is not several, so there is nothing to divide; set it to \"several\", and list the \
             databases in store.urls"
                .to_owned(),
        )
        .into()),
    }
}

/// The command failed because of a database.
fn failed(error: &StoreError) -> Failure {
    Failure::not_now(match error {
        StoreError::Exists => "another leafd division runs; run this again".to_owned(),
        error => error.to_string(),
    })
}

async fn views(stores: &[Arc<dyn MemberStore>]) -> Result<Vec<MemberView>, Failure> {
    let mut views = Vec::with_capacity(stores.len());
    for store in stores {
        views.push(view(&**store).await.map_err(|error| failed(&error))?);
    }
    Ok(views)
}

/// Judges what the databases say. They are read one after the other, while another `leafd division` may
/// run: what looks wrong is read again.
async fn planned(
    stores: &[Arc<dyn MemberStore>],
    configured: Option<DatabaseIdentity>,
) -> Result<DivisionPlan, Failure> {
    let mut left = READINGS;
    loop {
        match plan(&views(stores).await?, configured) {
            Ok(plan) => return Ok(plan),
            Err(why) if left == 0 => return Err(Failure::config(why)),
            Err(_) => left -= 1,
        }
    }
}

async fn make(
    stores: &[Arc<dyn MemberStore>],
    place: &SeveralPlace,
    shares: u64,
    block: u64,
    environment: &Environment,
) -> Result<(), Failure> {
    let random = || {
        DatabaseIdentity::random(environment)
            .map_err(|error| Failure::system("no random bytes", &error))
    };
    let mut plan = planned(stores, place.division()).await?;
    if plan == DivisionPlan::New {
        let division = Division::new(shares, block).ok_or_else(|| {
            Failure::config(format!(
                "--shares {shares} --block {block}: a division has {} to {} shares, and blocks of {} \
                 to {} IDs",
                SHARES.start(),
                SHARES.end(),
                BLOCK.start(),
                BLOCK.end()
            ))
        })?;
        // The one that leafd prefers, so that its IDs begin at 1.
        let founder =
            stores.first().ok_or_else(|| Failure::config("store.urls is empty".to_owned()))?;
        let (name, member) = (random()?, random()?);
        let membership = Membership { name, member, range: None, division, is_closed: false };
        found(&**founder, membership).await.map_err(|error| failed(&error))?;
        print(&format!("{}: share 1 of {shares}\n", founder.describe()))?;
        plan = planned(stores, place.division()).await?;
    }
    let DivisionPlan::Add { name, division, newcomers } = plan else {
        return Err(Failure::not_now("another leafd division runs; run this again"));
    };
    let mut members: Vec<&dyn MemberStore> = stores
        .iter()
        .enumerate()
        .filter(|(index, _)| !newcomers.contains(index))
        .map(|(_, store)| &**store)
        .collect();
    for store in newcomers.iter().filter_map(|index| stores.get(*index)) {
        let membership =
            Membership { name, member: random()?, range: None, division, is_closed: false };
        let added = add(&members, &**store, membership).await;
        let share = added.map_err(|error| match error {
            StoreError::BadRow(why) => Failure::config(why),
            error => failed(&error),
        })?;
        print(&format!("{}: {share}\n", store.describe()))?;
        members.push(&**store);
    }
    // Two URLs of one database show now at the latest.
    planned(stores, Some(name)).await?;
    let completed = complete_rows(&members, division).await.map_err(|error| failed(&error))?;
    if completed.made > 0 {
        print(&format!("{} rows of tags made where they were missing\n", completed.made))?;
    }
    if !completed.without_room.is_empty() {
        print(&format!(
            "warning: these tags are so near the highest ID that not every database has room for \
             them: {}\n",
            completed.without_room.join(", ")
        ))?;
    }
    print(&format!("the division has {division}; set store.division = \"{name}\"\n"))
}

async fn show(stores: &[Arc<dyn MemberStore>], place: &SeveralPlace) -> Result<(), Failure> {
    let mut failure = None;
    for (index, store) in stores.iter().enumerate() {
        let (number, described) = (index + 1, store.describe());
        let line = match view(&**store).await {
            Ok(view) => shown(view.membership.as_ref(), place.division()),
            Err(error) => {
                failure.get_or_insert_with(|| failed(&error));
                format!("fails: {error}")
            }
        };
        print(&format!("{number}. {described}: {line}\n"))?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    // What does not belong together, or has been given twice.
    planned(stores, place.division()).await.map(drop)
}

fn shown(membership: Option<&Membership>, configured: Option<DatabaseIdentity>) -> String {
    let Some(it) = membership else {
        return "no share yet; run `leafd division make`".to_owned();
    };
    let (Some(share), Some(range)) = (it.share(), it.range) else {
        return "no share yet; run `leafd division make`, which goes on".to_owned();
    };
    let left = range.end - range.first - 1;
    let closed = if it.is_closed { ", closed" } else { "" };
    let other = match configured {
        Some(name) if name != it.name => " (not the one of store.division)",
        _ => "",
    };
    format!(
        "{share}{closed}, {left} more to give away, blocks of {} IDs, division {}{other}",
        it.division.block, it.name
    )
}

async fn set_closed(
    stores: &[Arc<dyn MemberStore>],
    place: &SeveralPlace,
    share: u64,
    closed: bool,
) -> Result<(), Failure> {
    let name = place.division().ok_or_else(|| {
        Failure::config("store.division is missing, so it is not clear whose share this is")
    })?;
    let mut found = false;
    for store in stores {
        // One that does not answer cannot be closed, and need not be.
        let Ok(MemberView { membership: Some(it), .. }) = view(&**store).await else { continue };
        let number = it.share().map(|share| share.number() + 1);
        if it.name != name || number != Some(share) {
            continue;
        }
        found = true;
        store.set_closed(it.member, closed).await.map_err(|error| failed(&error))?;
        print(&match closed {
            true => format!(
                "share {share} is closed; remove {} from store.urls on every host, and restart leafd \
                 there\n",
                store.describe()
            ),
            false => format!("share {share} is open; run `leafd division make`\n"),
        })?;
    }
    if found {
        return Ok(());
    }
    Err(Failure::config(format!(
        "no database that answers has share {share} of this division (`leafd division show`). If it is \
         gone, there is nothing to close: remove its URL from store.urls on every host"
    )))
}
