//! What a claim knows of its instance and of its registry: address, names, times.

use std::time::Duration;

use super::name::NodeName;
use super::record::{self, ClaimPhase, HolderRecord, LeafRecord, LiveRecord};
use super::write::RegistryRecord;
use crate::config;
use crate::duration::ms;
use crate::safety::{REPORT_MS, settle_ms};

/// Where an instance can be reached, which is also its identity if none is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceAddress {
    pub(crate) identity: String,
    /// The address in Java Leaf's record.
    pub(crate) leaf_ip: String,
    pub(crate) leaf_port: String,
    /// Where other instances ask for the time.
    pub(crate) ip: String,
    /// 0 without a peer port.
    pub(crate) port: u16,
}

/// One life of an instance: from the start of leafd to its end.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) address: InstanceAddress,
    /// The name of this life, which no other life has.
    pub(crate) nonce: String,
    /// The names of earlier lives on this state directory, which have ended.
    pub(crate) earlier: Vec<String>,
    /// As configuration writes it.
    pub(crate) layout: String,
    /// The largest worker ID of the layout.
    pub(crate) max_worker: u64,
}

impl Instance {
    pub(crate) fn identity(&self) -> &str {
        &self.address.identity
    }

    /// Whether `nonce` names a life on this state directory.
    pub(super) fn is(&self, nonce: &str) -> bool {
        self.nonce == nonce || self.earlier.iter().any(|earlier| earlier == nonce)
    }

    pub(super) fn leaf_record(&self, timestamp: u64) -> LeafRecord {
        let InstanceAddress { leaf_ip, leaf_port, .. } = &self.address;
        LeafRecord { ip: leaf_ip.clone(), port: leaf_port.clone(), timestamp }
    }

    pub(super) fn leaf(&self, name: &NodeName, timestamp: u64) -> RegistryRecord {
        RegistryRecord::Leaf(name.clone(), self.leaf_record(timestamp))
    }

    pub(super) fn holder(
        &self,
        name: &NodeName,
        phase: ClaimPhase,
        (ceiling, limit): (u64, u64),
        leaf_version: i32,
    ) -> RegistryRecord {
        let (version, nonce) = (record::VERSION, self.nonce.clone());
        let holder = HolderRecord { version, nonce, phase, ceiling, limit, leaf_version };
        RegistryRecord::Holder(name.clone(), holder)
    }

    pub(super) fn live(&self, name: &NodeName) -> RegistryRecord {
        let (version, nonce) = (record::VERSION, self.nonce.clone());
        let (ip, port) = (self.address.ip.clone(), self.address.port);
        RegistryRecord::Live(name.clone(), LiveRecord { version, nonce, ip, port })
    }
}

/// How messages speak of a registry. Sentences that the runbook explains are here in full, so that an
/// operator finds them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegistryWords {
    /// As in "… answers again".
    pub(crate) name: &'static str,
    /// The key of the configuration that says where the registry is.
    pub(crate) servers_key: &'static str,
    /// What the instances that share worker IDs have in common, as in "the instances in …".
    pub(crate) fleet: &'static str,
    /// How to leave that fleet, as in "set …".
    pub(crate) other_fleet: &'static str,
    /// Where the registry keeps what all instances agree on.
    pub(crate) fleet_record: &'static str,
    /// Why there are no IDs before the registry has given a worker ID.
    pub(crate) no_worker_id: &'static str,
    /// leafd serves without the registry.
    pub(crate) served_from_file: &'static str,
    /// Why there are no IDs after so many seconds without a report.
    pub(crate) fenced: fn(seconds: u64) -> String,
    /// The last report failed, for this reason.
    pub(crate) not_told_of_the_end: fn(why: &str) -> String,
    /// This host's address towards the registry is unknown, for this reason.
    pub(crate) no_address: fn(why: &str) -> String,
}

/// Which worker IDs a claim chooses from, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// leafd's own.
    OfLayout,
    /// Those that leafd lends.
    OfPool,
}

impl Numbers {
    /// As in "all 1024 worker IDs of …".
    pub(crate) const fn of(self) -> &'static str {
        match self {
            Self::OfLayout => "the layout",
            Self::OfPool => "the pool",
        }
    }

    /// What an operator can do if all are taken.
    pub(crate) const fn make_room(self) -> &'static str {
        match self {
            Self::OfLayout => {
                "Stop instances, release IDs that are gone for good (`leafctl worker release`), or let \
                 instances give theirs back (worker.give-back)"
            }
            Self::OfPool => {
                "End borrowers by SIGTERM, so that they return theirs, release IDs that are gone for good \
                 (`leafctl worker release --pool`), or borrow from a pool with more bits (lend.pools)"
            }
        }
    }
}

/// The rules of a claim; times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimRules {
    /// The worker ID of an instance that has not reported for this long may be taken over; none
    /// where Java Leaf is present, which knows no fence.
    pub(crate) reclaim_after_ms: Option<u64>,
    /// An instance that could not report for this long stops issuing.
    pub(crate) fence_after_ms: u64,
    /// A session ends if the registry does not hear of it for this long.
    pub(crate) session_ms: u64,
    /// Interval between two reports.
    pub(crate) report_ms: u64,
    /// A new worker ID is not used before this has passed.
    pub(crate) settle_ms: u64,
    /// Which clock measures the age of a record.
    pub(crate) ages: Ages,
    pub(crate) words: RegistryWords,
    pub(crate) numbers: Numbers,
}

/// How an instance tells for how long another one has not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ages {
    /// By the registry's clock.
    Told,
    /// By this host's boot clock, for as long as it sees the record unchanged from one
    /// [vantage](super::quiet::Vantage): another server may answer from now on, whose clock differs.
    Observed,
}

impl ClaimRules {
    /// The rules in a registry whose sessions last for `session` and whose calls may take `call`.
    pub(crate) fn new(
        worker: &config::WorkerSection,
        session: Duration,
        call: Duration,
        words: RegistryWords,
    ) -> Self {
        Self {
            reclaim_after_ms: (!worker.java_leaf).then(|| ms(worker.reclaim_after)),
            fence_after_ms: ms(worker.fence_after),
            session_ms: ms(session),
            report_ms: REPORT_MS,
            settle_ms: settle_ms(ms(call)),
            ages: Ages::Told,
            words,
            numbers: Numbers::OfLayout,
        }
    }

    /// The rules in a registry whose clock may jump.
    pub(crate) const fn observing_ages(self) -> Self {
        Self { ages: Ages::Observed, ..self }
    }

    /// Until when a holder may issue after it reported the time `ms`.
    pub(crate) const fn limit(&self, ms: u64) -> u64 {
        ms.saturating_add(self.fence_after_ms)
    }

    /// Why an instance that is cut off has stopped.
    pub(crate) fn fenced(&self) -> String {
        (self.words.fenced)(self.fence_after_ms / 1000)
    }
}
