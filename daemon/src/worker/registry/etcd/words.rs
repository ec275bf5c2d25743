//! How messages speak of etcd.

use crate::worker::claim::instance::RegistryWords;

pub(crate) const WORDS: RegistryWords = RegistryWords {
    name: "etcd",
    servers_key: "etcd.endpoints",
    fleet: "this fleet of etcd",
    other_fleet: "etcd.name to a fleet of its own",
    fleet_record: "the key /leafd/NAME/leafd in etcd",
    no_worker_id: "no worker ID yet, etcd has to give one",
    served_from_file: "worker ID from the worker file, etcd does not answer; other instances' clocks are \
                       not asked",
    fenced: |seconds| {
        format!(
            "etcd has not taken a report for {seconds} s (worker.fence-after), so the worker ID may become \
             another's; IDs go on when it can be reached"
        )
    },
    not_told_of_the_end: |why| format!("etcd was not told of the end: {why}"),
    no_address: |why| {
        format!(
            "this host's address towards etcd cannot be found ({why}); correct etcd.endpoints, or set \
             peer.advertise"
        )
    },
};
