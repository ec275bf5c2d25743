//! `leafd division`: gives databases their shares of the IDs, shows them, and closes one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Failure, load_with, paths, print, runtime};
use crate::config::{Config, Loaded, Problem};
use crate::environment::Environment;
use crate::state::database::DatabaseIdentity;
use crate::store::several::division::{
    DivisionPlan, MemberView, close_share, complete_rows, give_share, plan, view,
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
    /// Close a share, which users count from 1 on.
    Close {
        /// The share.
        share: u64,
    },
}

/// Connections to each database.
const CONNECTIONS: usize = 2;

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
            DivisionRequest::Close { share } => close(&stores, share).await,
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

async fn make(
    stores: &[Arc<dyn MemberStore>],
    place: &SeveralPlace,
    shares: u64,
    block: u64,
    environment: &Environment,
) -> Result<(), Failure> {
    let views = views(stores).await?;
    let random = || {
        DatabaseIdentity::random(environment)
            .map_err(|error| Failure::system("no random bytes", &error))
    };
    let plan = plan(&views, place.division()).map_err(Failure::config)?;
    let (name, division, newcomers) = match plan {
        DivisionPlan::New => {
            let division = Division::new(shares, block).ok_or_else(|| {
                Failure::config(format!(
                    "--shares {shares} --block {block}: a division has {} to {} shares, and blocks \
                     of {} to {} IDs",
                    SHARES.start(),
                    SHARES.end(),
                    BLOCK.start(),
                    BLOCK.end()
                ))
            })?;
            if stores.len() as u64 > division.shares {
                return Err(Failure::config(format!(
                    "--shares {shares}: store.urls has {} databases",
                    stores.len()
                )));
            }
            (random()?, division, (0..stores.len()).collect())
        }
        DivisionPlan::Add { name, division, newcomers } => (name, division, newcomers),
    };
    let mut memberships: Vec<Option<Membership>> =
        views.iter().map(|view| view.membership).collect();
    for index in &newcomers {
        let (Some(store), Some(known)) = (stores.get(*index), memberships.get_mut(*index)) else {
            continue;
        };
        if known.is_none() {
            let (member, share, is_closed) = (random()?, None, false);
            let membership = Membership { name, member, share, division, is_closed };
            store.join(membership).await.map_err(|error| failed(&error))?;
            *known = Some(membership);
        }
    }
    // Two operators at once meet at the first database, before either has written anything.
    let mut order: Vec<(DatabaseIdentity, &dyn MemberStore)> = stores
        .iter()
        .zip(&memberships)
        .filter_map(|(store, membership)| Some((membership.as_ref()?.member, &**store)))
        .collect();
    order.sort_by_key(|(member, _)| *member);
    let order: Vec<&dyn MemberStore> = order.into_iter().map(|(_, store)| store).collect();
    for index in newcomers {
        let (Some(store), Some(Some(membership))) = (stores.get(index), memberships.get(index))
        else {
            continue;
        };
        let given = give_share(&order, &**store, *membership).await;
        let share = given.map_err(|error| failed(&error))?;
        print(&format!("{}: {share}\n", store.describe()))?;
    }
    let made = complete_rows(&order, division).await.map_err(|error| failed(&error))?;
    if made > 0 {
        print(&format!("{made} rows of tags made where they were missing\n"))?;
    }
    print(&format!("the division has {division}; set store.division = \"{name}\"\n"))
}

async fn show(stores: &[Arc<dyn MemberStore>], place: &SeveralPlace) -> Result<(), Failure> {
    let mut failure = None;
    for (index, store) in stores.iter().enumerate() {
        let (number, described) = (index + 1, store.describe());
        let line = match view(&**store).await {
            Ok(MemberView { membership: None, .. }) => {
                "no share yet; run `leafd division make`".to_owned()
            }
            Ok(MemberView { membership: Some(it), given, .. }) => {
                let share = it.share.map_or_else(
                    || "no share yet, `leafd division make` was interrupted".to_owned(),
                    |share| share.to_string(),
                );
                let closed = if it.is_closed { ", closed" } else { "" };
                let other = match place.division() {
                    Some(name) if name != it.name => " (not the one of store.division)",
                    _ => "",
                };
                let mut shares: Vec<_> = given.iter().map(|it| it.share).collect();
                shares.sort_unstable();
                shares.dedup();
                let block = it.division.block;
                format!(
                    "{share}{closed}, blocks of {block} IDs, {} shares given away, division {}{other}",
                    shares.len(),
                    it.name
                )
            }
            Err(error) => {
                failure.get_or_insert_with(|| failed(&error));
                format!("fails: {error}")
            }
        };
        print(&format!("{number}. {described}: {line}\n"))?;
    }
    failure.map_or(Ok(()), Err)
}

async fn close(stores: &[Arc<dyn MemberStore>], share: u64) -> Result<(), Failure> {
    let number = share.checked_sub(1).ok_or_else(|| {
        Failure::config("there is no share 0; `leafd division show` shows the shares".to_owned())
    })?;
    let mut open = 0;
    let mut order: Vec<&dyn MemberStore> = Vec::new();
    for store in stores {
        // The database of this share may be gone; that is what closing is for.
        let Ok(MemberView { membership: Some(it), .. }) = view(&**store).await else {
            order.push(&**store);
            continue;
        };
        let is_other = it.share.is_some_and(|own| own.number() != number);
        open += u64::from(is_other && !it.is_closed);
        order.push(&**store);
    }
    if open == 0 {
        return Err(Failure::config(format!(
            "share {share} is the last open one that answers; add another database first"
        )));
    }
    let noted = close_share(&order, number).await.map_err(|error| failed(&error))?;
    if noted == 0 {
        return Err(Failure::config(format!(
            "share {share} was given to nobody; `leafd division show` shows the shares"
        )));
    }
    print(&format!(
        "share {share} is closed in {noted} databases; remove its URL from store.urls on every host, \
         and restart leafd there\n"
    ))
}
