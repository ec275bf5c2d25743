//! The readings that the claim and the comparison of clocks need. Their order is part of the argument
//! for uniqueness, and the same for every registry.

use fastrand::Rng;

use super::{RegistryError, RegistrySession};
use crate::worker::claim::name::NodeName;
use crate::worker::claim::view::{RegistryView, Wanted};

/// How many of the worker IDs that were given back are looked at.
const MOST_FREE: usize = 32;

/// Reads what `wanted` says.
///
/// # Errors
/// When a call fails.
pub(crate) async fn look(
    session: &dyn RegistrySession,
    wanted: &Wanted,
    random: &mut Rng,
) -> Result<RegistryView, RegistryError> {
    match look_once(session, wanted, random).await {
        // The registry's data was deleted.
        Err(RegistryError::Conflict) => {
            session.prepare().await?;
            look_once(session, wanted, random).await
        }
        other => other,
    }
}

async fn look_once(
    session: &dyn RegistrySession,
    wanted: &Wanted,
    random: &mut Rng,
) -> Result<RegistryView, RegistryError> {
    // What is read after a write is at least as new.
    let clock = session.clock().await?;
    // Before the names: a worker ID that returns afterwards changes its version.
    let fleet = session.fleet().await?.ok_or(RegistryError::Conflict)?;
    let (nodes, next_sequence) = session.owned().await?;
    let live = session.live().await?;
    let free = session.free().await?;
    let of_interest = nodes.iter().filter(|name| {
        // Few live instances are asked about, so this is not quadratic but for a survey.
        let is_live = wanted.survey && live.binary_search(name).is_ok();
        wanted.includes(name, is_live)
    });
    let of_interest: Vec<_> = of_interest.cloned().collect();
    let entries = session.entries(&of_interest).await?;
    let is_own = |name: &&NodeName| name.identity() == wanted.identity;
    let own: Vec<_> = live.iter().filter(is_own).cloned().collect();
    let lives = session.live_records(&own).await?;
    let mut some = free.clone();
    random.shuffle(&mut some);
    some.sort_by_key(|name| name.identity() != wanted.identity);
    some.truncate(MOST_FREE);
    let frees = session.free_records(&some).await?;
    Ok(RegistryView {
        vantage: session.vantage(clock.epoch),
        now_ms: clock.now_ms,
        fleet,
        nodes,
        next_sequence,
        live,
        free,
        entries,
        lives,
        frees,
    })
}

/// Where the other live instances' clocks can be asked for. `nonce` names this life.
///
/// # Errors
/// When a call fails.
pub(crate) async fn peers(
    session: &dyn RegistrySession,
    nonce: &str,
) -> Result<Vec<String>, RegistryError> {
    let live = session.live().await?;
    let lives = session.live_records(&live).await?;
    let others = lives.into_iter().filter_map(|(_, live)| live.value.ok());
    let others = others.filter(|live| live.nonce != nonce && live.port != 0);
    Ok(others.map(|live| join(&live.ip, live.port)).collect())
}

fn join(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}
