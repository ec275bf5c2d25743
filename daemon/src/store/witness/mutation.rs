//! Rules that a test can switch off, one at a time, to see that the simulation notices.

use std::cell::Cell;

/// A rule that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutation {
    /// Another server, or another start of it, is taken for the one before.
    IgnoreServer,
    /// A row or an epoch that is older than this host left it is no sign of a loss.
    IgnoreWitness,
    /// An open epoch stops no lease.
    LeaseWhileOpen,
    /// A host that has just joined leases before the others know it.
    LeaseBeforeAllKnow,
    /// Hosts that the table has forgotten stay forgotten.
    ForgetRoster,
    /// A host confirms an epoch before it has raised its rows.
    ConfirmUnraised,
    /// The first host that has confirmed an epoch closes it.
    CloseWithoutAll,
    /// An epoch closes before anybody came that knows all hosts.
    CloseUnwitnessed,
    /// A host raises its rows while a lease of its own is in flight.
    RaiseDuringLease,
    /// A tag whose row is lost is not remembered.
    NoTombstone,
}

impl Mutation {
    pub(super) const ALL: [Self; 10] = [
        Self::IgnoreServer,
        Self::IgnoreWitness,
        Self::LeaseWhileOpen,
        Self::LeaseBeforeAllKnow,
        Self::ForgetRoster,
        Self::ConfirmUnraised,
        Self::CloseWithoutAll,
        Self::CloseUnwitnessed,
        Self::RaiseDuringLease,
        Self::NoTombstone,
    ];
}

thread_local! {
    static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Whether this thread works without this rule.
pub(super) fn is_on(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Switches a rule off, or all on.
pub(super) fn set(mutation: Option<Mutation>) {
    ON.set(mutation);
}
