//! The witness table: how a fleet notices that its database has lost confirmed leases, and agrees on where to
//! go on before anybody leases again (decision 049). `rules` decides, `table` is what the database holds, and
//! `memory` what a host remembers of it. No SQL and no tag's buffer enters here.

pub(crate) mod keeper;
pub(crate) mod memory;
mod messages;
pub(crate) mod rules;
pub(crate) mod silence;
pub(crate) mod table;

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod simulation_tests;

/// Whether a test has switched a rule off, to see that the simulation notices. Never outside of tests.
macro_rules! mutated {
    ($mutation:ident) => {{
        #[cfg(test)]
        let is = super::mutation::is_on(super::mutation::Mutation::$mutation);
        #[cfg(not(test))]
        let is = false;
        is
    }};
}
use mutated;

use self::keeper::{WitnessKeeper, WitnessNext};
use self::table::WitnessTable;
use super::{BoxFuture, StoreError};
use crate::ids::BizTag;

/// What became of an operator's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AcceptedLoss {
    /// The epoch is closed.
    Done {
        /// The hosts that were missing.
        without: Vec<String>,
    },
    /// Another epoch is there, or none is open.
    NotOpen {
        /// The epoch of the table.
        epoch: u64,
        /// Whether it is open.
        open: bool,
    },
    /// A host that is missing is alive.
    Alive {
        /// Which ones.
        hosts: Vec<String>,
    },
}

/// A store that may have the table.
pub(crate) trait WitnessStore: Send + Sync {
    /// What this process knows of the table; none if the store cannot have one.
    fn keeper(&self) -> Option<&WitnessKeeper>;

    /// Waits, for a bounded time, until it is known whether leases may be tried.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// Looks at the table, and changes it if the rules ask for that.
    fn attend(&self) -> BoxFuture<'_, Result<WitnessNext, StoreError>>;

    /// Says that this host leases nothing from now on.
    fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The whole table, and the database's clock in seconds since 1970.
    fn table(&self) -> BoxFuture<'_, Result<(WitnessTable, u64), StoreError>>;

    /// Closes this epoch without the hosts that have not confirmed it, and moves every tag forward.
    fn accept_loss(
        &self,
        epoch: u64,
        margin: u64,
    ) -> BoxFuture<'_, Result<AcceptedLoss, StoreError>>;

    /// Has a tag without a row begin at `at` or above, if somebody makes it again.
    fn bury<'a>(&'a self, tag: &'a BizTag, at: u64) -> BoxFuture<'a, Result<(), StoreError>>;
}
