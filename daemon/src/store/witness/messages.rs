//! What leafd says about the witness table.

use super::rules::{Hold, SETTLE, Visited};
use super::table::WitnessTable;

/// The hosts that have not confirmed the epoch.
pub(super) fn names(table: &WitnessTable) -> Vec<String> {
    table.missing().map(|(name, row)| format!("{} ({name})", row.shown)).collect()
}

/// The most hosts that one message names.
const NAMED: usize = 5;

/// Why nothing may be leased, for users.
pub(super) fn told(hold: &Hold, looked: Option<&WitnessTable>) -> String {
    let Hold::Open { epoch } = hold else { return hold.to_string() };
    if *epoch == 1 {
        return format!(
            "the table leafd_witness is new; leases wait {} s, so that the hosts that are there can come",
            SETTLE.as_secs()
        );
    }
    let table = looked.filter(|table| table.fleet.as_ref().is_some_and(|f| f.epoch == *epoch));
    let missing = table.map(names).unwrap_or_default();
    if missing.is_empty() {
        return hold.to_string();
    }
    format!("{hold}; it waits for {}", some_of(&missing))
}

/// How many there are, and the first ones.
pub(super) fn some_of(hosts: &[String]) -> String {
    let named: Vec<_> = hosts.iter().take(NAMED).map(String::as_str).collect();
    format!("{}: {}", hosts.len(), named.join(", "))
}

/// Says what a visit found and did.
pub(super) fn log_visit(visited: &Visited) {
    let epoch = visited.table.fleet.as_ref().map_or(0, |fleet| fleet.epoch);
    if let Some(sign) = &visited.opened {
        tracing::warn!(
            epoch,
            "the database may have lost the latest leases: {sign}. leafd opened an epoch in the table \
             leafd_witness: nobody leases until every host has moved its tags above what it knows"
        );
    }
    if let Some(margin) = visited.skip {
        tracing::error!(
            epoch,
            margin,
            "not every host has confirmed the epoch in time; every tag skips IDs, and leases go on"
        );
    } else if visited.closed {
        tracing::info!(epoch, "every host has confirmed the epoch; leases go on");
    }
}
