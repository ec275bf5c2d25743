//! Whether a node is quiet: nothing else shows that no Java Leaf uses it any more. Quiet is observed,
//! never inferred. The age of the last write proves nothing, since a Java Leaf that does not reach
//! ZooKeeper goes on issuing and writes nothing. Plain values: times come in, no clock is read.

use std::collections::HashMap;

use super::name::NodeName;
use crate::safety::REPORT_MS;

/// Java Leaf's call waits this long for a connection, then fails (Curator's `connectionTimeoutMs`).
const CONNECTION_TIMEOUT_MS: u64 = 10_000;

/// The session timeout that Java Leaf asks for. Its client tries all servers once within this, and
/// notices a server that hangs within two thirds of it.
const SESSION_TIMEOUT_MS: u64 = 6000;

/// How long Java Leaf's client retries a failed call (`RetryUntilElapsed(1000, 4)`), and the longest
/// pause between two attempts to connect.
const RETRY_MS: u64 = 1000;

/// For a busy host, a long garbage collection, a slow write.
const MARGIN_MS: u64 = 5000;

/// The most nodes that are watched at once. A node that was evicted counts as not quiet.
const MOST_NODES: usize = 4096;

/// A Java Leaf that runs and can reach ZooKeeper writes its node at least this often (ms), also
/// right after an outage: a call that was under way fails, the next report comes, and the client
/// connects. `session_ms` is the session timeout that the ensemble granted this leafd. An ensemble
/// grants nobody less than its minimum, so Java Leaf's session can be as long.
pub(crate) const fn quiet_ms(session_ms: u64) -> u64 {
    let session_ms = if session_ms > SESSION_TIMEOUT_MS { session_ms } else { SESSION_TIMEOUT_MS };
    // A call hangs until there is no connection for too long, or its server is found to be silent.
    let silent_ms = session_ms / 3 * 2;
    let hangs_ms =
        if silent_ms > CONNECTION_TIMEOUT_MS { silent_ms } else { CONNECTION_TIMEOUT_MS };
    hangs_ms + RETRY_MS + REPORT_MS + session_ms + MARGIN_MS
}

/// From where the registry was seen. Observations from two vantages do not add up: between them there
/// may have been an outage, in which Java Leaf could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Vantage {
    /// The session.
    pub(crate) session: i64,
    /// How often the session has lost its connection, or a call has failed.
    pub(crate) disturbances: u64,
    /// Grows with each election of the registry's servers. In ZooKeeper: the upper half of its
    /// transaction numbers.
    pub(crate) epoch: i64,
    /// The session timeout that the registry granted (ms).
    pub(crate) session_ms: u64,
}

/// What distinguishes one write of a node from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteStamp {
    /// The transaction that made the node.
    pub(crate) created: i64,
    /// The transaction that wrote its data last.
    pub(crate) modified: i64,
    /// How often its data was written.
    pub(crate) version: i32,
}

/// How long a node has been seen unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// In ms.
    pub(crate) for_ms: u64,
    /// The node counts as quiet after this (ms).
    pub(crate) needed_ms: u64,
    /// Somebody wrote it while it was watched.
    pub(crate) was_written: bool,
}

impl Quiet {
    /// Whether the node counts as quiet.
    pub(crate) const fn is_enough(&self) -> bool {
        self.for_ms >= self.needed_ms
    }

    /// How much longer the node must be watched (ms).
    pub(crate) const fn left_ms(&self) -> u64 {
        self.needed_ms.saturating_sub(self.for_ms)
    }
}

#[derive(Debug, Clone, Copy)]
struct Observation {
    stamp: WriteStamp,
    /// The end of the reading that saw it first, and the beginning of the latest one (ms since the
    /// boot).
    first_ms: u64,
    last_ms: u64,
    was_written: bool,
}

/// The nodes that are watched, from one vantage.
#[derive(Debug, Default)]
pub(crate) struct QuietWatch {
    vantage: Vantage,
    nodes: HashMap<NodeName, Observation>,
}

impl QuietWatch {
    /// Begins again with every node: what happened since is not known.
    pub(crate) fn forget(&mut self) {
        self.nodes.clear();
    }

    /// A node was read from `vantage`, at some time between `began_ms` and `ended_ms` (ms since the
    /// boot).
    pub(crate) fn see(
        &mut self,
        vantage: Vantage,
        (began_ms, ended_ms): (u64, u64),
        name: &NodeName,
        stamp: WriteStamp,
    ) -> Quiet {
        if self.vantage != vantage {
            self.vantage = vantage;
            self.forget();
        }
        let known = self.nodes.get(name).copied();
        let observation = match known {
            Some(known) if known.stamp == stamp => {
                Observation { last_ms: began_ms.max(known.last_ms), ..known }
            }
            known => Observation {
                stamp,
                first_ms: ended_ms,
                last_ms: ended_ms,
                was_written: known.is_some(),
            },
        };
        if known.is_none() && self.nodes.len() >= MOST_NODES {
            self.forget_one();
        }
        self.nodes.insert(name.clone(), observation);
        Quiet {
            for_ms: observation.last_ms.saturating_sub(observation.first_ms),
            needed_ms: quiet_ms(vantage.session_ms),
            was_written: observation.was_written,
        }
    }

    /// Drops the node that was not looked at for longest.
    fn forget_one(&mut self) {
        let oldest = self.nodes.iter().min_by_key(|(_, observation)| observation.last_ms);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.nodes.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Vantage = Vantage { session: 1, disturbances: 0, epoch: 1, session_ms: 10_000 };
    const NODE: WriteStamp = WriteStamp { created: 1, modified: 7, version: 3 };

    fn name(number: u64) -> NodeName {
        NodeName::new("10.0.0.1:8080", number)
    }

    /// How long it has been quiet after readings at these times, each a second long.
    fn quiet_after(readings: &[(u64, Vantage, WriteStamp)]) -> Quiet {
        let mut watch = QuietWatch::default();
        let mut last = None;
        for (at, vantage, sight) in readings {
            last = Some(watch.see(*vantage, (*at, at + 1000), &name(1), *sight));
        }
        last.unwrap()
    }

    #[test]
    fn a_java_leaf_that_returns_after_an_outage_has_written_before_its_node_counts_as_quiet() {
        // A call that began before the end of the outage hangs and fails (10 s without a
        // connection); the next report comes 3 s later; its client tries all servers (6 s), with
        // a pause (1 s).
        assert!(quiet_ms(0) >= 10_000 + 3000 + 6000 + 1000 + MARGIN_MS);
        // With a longer session it notices later that a server is silent, and tries for longer.
        assert!(quiet_ms(39_000) >= 26_000 + 3000 + 39_000 + 1000 + MARGIN_MS);
        assert!((0..60).all(|s| quiet_ms(1000 * s) <= quiet_ms(1000 * (s + 1))));
    }

    #[test]
    fn what_was_never_seen_before_is_not_quiet_however_old_it_is() {
        let quiet = quiet_after(&[(1_000_000, HERE, NODE)]);
        assert_eq!((quiet.for_ms, quiet.is_enough(), quiet.was_written), (0, false, false));
    }

    #[test]
    fn quiet_counts_from_the_end_of_the_first_reading_to_the_beginning_of_the_last() {
        let quiet = quiet_after(&[(0, HERE, NODE), (9000, HERE, NODE), (30_000, HERE, NODE)]);
        assert_eq!((quiet.for_ms, quiet.is_enough()), (29_000, true));
        let short = quiet_after(&[(0, HERE, NODE), (29_000, HERE, NODE)]);
        assert_eq!((short.is_enough(), short.left_ms()), (false, 1000));
    }

    #[test]
    fn every_write_restarts_the_wait_and_is_reported() {
        for sight in [
            WriteStamp { version: 4, ..NODE },
            WriteStamp { modified: 8, ..NODE },
            // Made again in between, with the same number of writes.
            WriteStamp { created: 2, ..NODE },
        ] {
            let quiet = quiet_after(&[(0, HERE, NODE), (60_000, HERE, sight)]);
            assert_eq!((quiet.for_ms, quiet.was_written), (0, true));
        }
    }

    #[test]
    fn another_session_another_epoch_and_a_lost_connection_start_it_again() {
        for other in [
            Vantage { session: 2, ..HERE },
            Vantage { epoch: 2, ..HERE },
            Vantage { disturbances: 1, ..HERE },
        ] {
            let readings = [(0, HERE, NODE), (60_000, other, NODE), (80_000, other, NODE)];
            let quiet = quiet_after(&readings);
            assert_eq!((quiet.for_ms, quiet.is_enough()), (19_000, false), "{other:?}");
        }
    }

    #[test]
    fn a_node_that_was_forgotten_for_others_is_not_quiet_and_memory_is_bounded() {
        let mut watch = QuietWatch::default();
        for number in 0..2 * MOST_NODES as u64 {
            watch.see(HERE, (number, number), &name(number), NODE);
        }
        assert_eq!(watch.nodes.len(), MOST_NODES);
        assert_eq!(watch.see(HERE, (90_000, 90_000), &name(0), NODE).for_ms, 0);
    }
}
