//! A Java Leaf as its open-source code behaves: it has the sequence of its node for a worker ID,
//! writes its time there every three seconds, leaves what leafd has below the node, and asks nobody.
//! In an outage it issues and writes nothing, and its first write afterwards may come late.

use super::super::model::Folder;
use super::super::name::NodeName;
use super::super::record::LeafRecord;
use super::super::write::RegistryRecord;
use super::{SECOND, SimulatedWorld};

/// After an outage a call may hang, its client has to connect, and the next report to come.
const RETURNS: u64 = 20 * SECOND;

pub(crate) struct SimulatedJavaLeaf {
    identity: String,
    worker: u64,
    last: u64,
    report_at: u64,
    /// The outages that its client knows of.
    outages: u64,
}

/// What a Java Leaf at this address writes.
pub(crate) fn java_record(identity: &str, timestamp: u64) -> LeafRecord {
    let (ip, port) = identity.rsplit_once(':').unwrap();
    LeafRecord { ip: ip.to_owned(), port: port.to_owned(), timestamp }
}

impl SimulatedJavaLeaf {
    /// `None` when its clock is behind what its node says, and without the ensemble: its file was
    /// removed.
    pub(crate) fn start(world: &mut SimulatedWorld, identity: &str) -> Option<Self> {
        if world.is_down {
            return None;
        }
        let now = world.zk_now();
        let names = world.ensemble().tree.names(Folder::Owned);
        let own = names.into_iter().rev().find(|name| name.identity() == identity);
        let worker = match own {
            None => {
                let leaf = java_record(identity, now);
                world.ensemble().tree.create_sequential(identity, leaf, now)?.sequence()
            }
            Some(own) => {
                let leaf = world.ensemble().tree.leaf(&own)?.value.unwrap();
                if leaf.timestamp > now {
                    return None;
                }
                own.sequence()
            }
        };
        // A start writes nothing but a new node.
        let (identity, report_at) = (identity.to_owned(), world.now + SECOND);
        let outages = world.ensemble().outages;
        Some(Self { identity, worker, last: now, report_at, outages })
    }

    /// One ID, and a report when it is time.
    pub(crate) fn act(&mut self, world: &mut SimulatedWorld) {
        let now = world.zk_now();
        let outages = world.ensemble().outages;
        if self.outages != outages && !world.is_down {
            self.outages = outages;
            self.report_at = world.now + world.random.u64(0..RETURNS);
        }
        if world.now >= self.report_at && !world.is_down {
            let name = NodeName::new(&self.identity, self.worker);
            let report = RegistryRecord::Leaf(name, java_record(&self.identity, now));
            assert!(world.ensemble().tree.overwrite(report, now));
            self.report_at = world.now + 3 * SECOND;
        }
        self.last = now.max(self.last + 1);
        world.record(self.worker, self.last, usize::MAX);
    }
}
