//! A Java Leaf as its open-source code behaves: it has the sequence of its node for a worker ID,
//! writes its time there every three seconds, leaves what leafd has below the node, and asks nobody.
//! In an outage it issues and writes nothing, and its first write afterwards may come late.

use super::super::name::{self, NodeName};
use super::super::view;
use super::{SECOND, World};

/// After an outage a call may hang, its client has to connect, and the next report to come.
const RETURNS: u64 = 20 * SECOND;

pub(crate) struct JavaLeaf {
    identity: String,
    worker: u64,
    last: u64,
    report_at: u64,
    /// The outages that its client knows of.
    outages: u64,
}

fn record(identity: &str, timestamp: u64) -> Vec<u8> {
    let (ip, port) = identity.rsplit_once(':').unwrap();
    format!(r#"{{"ip":"{ip}","port":"{port}","timestamp":{timestamp}}}"#).into_bytes()
}

impl JavaLeaf {
    /// `None` when its clock is behind what its node says, and without the ensemble: its file was
    /// removed.
    pub(crate) fn start(world: &mut World, identity: &str) -> Option<Self> {
        if world.is_down {
            return None;
        }
        let now = world.zk_now();
        let names = world.tree.names(view::FOREVER);
        let own = names.into_iter().rev().find(|name| name.identity() == identity);
        let worker = match own {
            None => {
                let data = record(identity, now);
                world.tree.create_sequential(&name::prefix(identity), &data, now)?.sequence()
            }
            Some(own) => {
                let leaf = world.tree.leaf(&own)?.value.unwrap();
                if leaf.timestamp > now {
                    return None;
                }
                own.sequence()
            }
        };
        // A start writes nothing but a new node.
        let (identity, report_at) = (identity.to_owned(), world.now + SECOND);
        Some(Self { identity, worker, last: now, report_at, outages: world.outages })
    }

    /// One ID, and a report when it is time.
    pub(crate) fn act(&mut self, world: &mut World) {
        let now = world.zk_now();
        let path = view::forever(&NodeName::new(&self.identity, self.worker));
        if self.outages != world.outages && !world.is_down {
            self.outages = world.outages;
            self.report_at = world.now + world.random.u64(0..RETURNS);
        }
        if world.now >= self.report_at && !world.is_down {
            assert!(world.tree.overwrite(&path, &record(&self.identity, now), now));
            self.report_at = world.now + 3 * SECOND;
        }
        self.last = now.max(self.last + 1);
        world.record(self.worker, self.last, usize::MAX);
    }
}
