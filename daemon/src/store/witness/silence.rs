//! Which hosts are silent. That is observed, never inferred from a time in the table: a table that was
//! restored shows every host with an old time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rules::AWAY;
use super::table::{HostName, WitnessTable};

/// Since when this process has seen each host's row unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct SilenceWatch {
    unchanged: BTreeMap<HostName, (u64, Duration)>,
}

impl SilenceWatch {
    /// Notes the table as it is at `now`, by a clock that nobody sets.
    pub(crate) fn see(&mut self, now: Duration, table: &WitnessTable) {
        let seen = table.hosts.iter().map(|(name, row)| {
            let before = self.unchanged.get(name).filter(|(beat, _)| *beat == row.beat);
            (*name, before.copied().unwrap_or((row.beat, now)))
        });
        self.unchanged = seen.collect();
    }

    /// The hosts that have not changed their rows for [`AWAY`].
    pub(crate) fn silent(&self, now: Duration) -> BTreeSet<HostName> {
        let rows = self.unchanged.iter();
        let silent = rows.filter(|(_, (_, since))| now.saturating_sub(*since) > AWAY);
        silent.map(|(name, _)| *name).collect()
    }
}
