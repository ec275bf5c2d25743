//! `leafctl store accept-loss`: shows the epoch of the witness table, and goes on without the hosts that are missing.

use std::path::Path;
use std::time::Duration;

use super::{Failure, load_with, paths, runtime, store};
use crate::config::{Loaded, Problem};
use crate::environment::Environment;
use crate::store::witness::table::{Presence, WitnessTable};
use crate::store::witness::{AcceptedLoss, WitnessStore};
use crate::store::{DatabaseGuard, IfMissing, StoreError, StoreLimits, StoreLocation};

/// What an operator wants of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptLossRequest {
    /// The epoch to close; without one, the command only shows it.
    pub epoch: Option<u64>,
    /// By how many IDs every tag moves forward.
    pub margin: u64,
}

/// Connections to the database.
const CONNECTIONS: usize = 2;

/// Why the table was neither shown nor changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptLossError {
    /// The configuration is wrong, or the table is not in the state that was named.
    #[error("{0}")]
    Refused(String),
    /// The database cannot do it now.
    #[error("{0}")]
    Unavailable(String),
}

impl From<Failure> for AcceptLossError {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure.message().to_owned())
    }
}

impl From<Problem> for AcceptLossError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem.to_string())
    }
}

impl From<StoreError> for AcceptLossError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Down(_) | StoreError::Busy(_) => Self::Unavailable(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Shows the table, or closes an epoch of it. Returns what to tell the operator, line by line.
///
/// # Errors
/// When the database cannot be reached, has no such table, or refuses.
pub fn accept_loss(
    path: Option<&Path>,
    request: AcceptLossRequest,
) -> Result<Vec<String>, AcceptLossError> {
    let refused = |why: String| AcceptLossError::Refused(why);
    let (Loaded { config, .. }, _) = load_with(path, |_| Vec::new())?;
    let location = config.store_location()?;
    if !matches!(location, StoreLocation::Shared(_)) {
        return Err(refused(
            "the store is not one MySQL, MariaDB or PostgreSQL database (store.kind), so it has no table \
             leafd_witness"
                .to_owned(),
        ));
    }
    let secrets = paths::store_secrets(&config)
        .map_err(|error| refused(format!("the store's password: {}", error.problem())))?;
    let environment = Environment::system();
    // An operator waits; a server that starts may be slow.
    let limits = StoreLimits {
        timeout: config.store.timeout.max(Duration::from_secs(5)),
        connections: CONNECTIONS,
    };
    let here = (&environment, IfMissing::Refuse);
    let source = store::source(&config, location, secrets, limits, here);
    runtime()?.block_on(async {
        let store = crate::store::open(source, DatabaseGuard::unrecorded())
            .map_err(|error| refused(format!("the store: {error}")))?;
        let outcome = match store.witness() {
            Some(witness) => carry_out(witness, request).await,
            None => Err(refused("this store has no table leafd_witness".to_owned())),
        };
        store.close().await;
        outcome
    })
}

async fn carry_out(
    witness: &dyn WitnessStore,
    AcceptLossRequest { epoch, margin }: AcceptLossRequest,
) -> Result<Vec<String>, AcceptLossError> {
    let Some(epoch) = epoch else {
        let (table, now_s) = witness.table().await?;
        return Ok(shown(&table, now_s));
    };
    match witness.accept_loss(epoch, margin).await? {
        AcceptedLoss::Done { without } => Ok(vec![format!(
            "epoch {epoch} is closed without {}; every tag moved forward by {margin} IDs. Leases go on \
             within a few seconds",
            names(&without)
        )]),
        AcceptedLoss::NotOpen { epoch: is, open } => Err(AcceptLossError::Refused(format!(
            "epoch {epoch} is not open: the table is at epoch {is}, which is {}. `leafctl store \
             accept-loss` without --epoch shows it",
            if open { "open" } else { "closed" }
        ))),
        AcceptedLoss::Alive { hosts } => Err(AcceptLossError::Unavailable(format!(
            "the row of {} was written a moment ago. If the host lives, it confirms by itself, or its log \
             says why it cannot; if it is gone, try again in 20 s",
            names(&hosts)
        ))),
    }
}

fn names(hosts: &[String]) -> String {
    if hosts.is_empty() { "anybody missing".to_owned() } else { hosts.join(", ") }
}

fn shown(table: &WitnessTable, now_s: u64) -> Vec<String> {
    let Some(fleet) = &table.fleet else {
        return vec!["the table leafd_witness is empty: no leafd has been here yet".to_owned()];
    };
    let epoch = fleet.epoch;
    let state = if fleet.open { "open" } else { "closed" };
    let ago = now_s.saturating_sub(fleet.opened_s);
    let mut lines =
        vec![format!("epoch {epoch} is {state}, opened by {} {ago} s ago", fleet.opener)];
    lines.extend(table.hosts.iter().map(|(name, row)| {
        let state = match row.presence {
            Presence::Here | Presence::Lapsed if row.confirmed >= epoch => "has confirmed it",
            Presence::Here | Presence::Lapsed => "MISSING: has not confirmed it",
            Presence::Left => "has left",
            Presence::Away => "is written off",
        };
        let ago = now_s.saturating_sub(row.seen_s);
        format!("{} ({name}) {state}, last written {ago} s ago", row.shown)
    }));
    if fleet.open {
        lines.push(format!(
            "to go on without those that are missing: leafctl store accept-loss --epoch {epoch} --margin N, \
             with an N above what each of them can have leased of any tag since its leases were lost"
        ));
    }
    lines
}
