//! How messages speak of ZooKeeper.

use crate::worker::claim::instance::RegistryWords;

pub(crate) const WORDS: RegistryWords = RegistryWords {
    name: "ZooKeeper",
    servers_key: "zookeeper.servers",
    fleet: "this tree",
    other_fleet: "zookeeper.name to a tree of its own",
    fleet_record: "the node leafd",
    no_worker_id: "no worker ID yet, ZooKeeper has to give one",
    served_from_file: "worker ID from the worker file, ZooKeeper does not answer; other instances' \
                       clocks are not asked",
    fenced: |seconds| {
        format!(
            "ZooKeeper has not taken a report for {seconds} s (worker.fence-after), so the worker ID \
             may become another's; IDs go on when it can be reached"
        )
    },
    not_told_of_the_end: |why| format!("ZooKeeper was not told of the end: {why}"),
    no_address: |why| {
        format!(
            "this host's address towards ZooKeeper cannot be found ({why}); correct \
             zookeeper.servers, or set peer.advertise"
        )
    },
};
