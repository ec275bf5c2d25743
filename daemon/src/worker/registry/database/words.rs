//! How messages speak of the registry in a database.

use crate::worker::claim::instance::RegistryWords;

pub(crate) const WORDS: RegistryWords = RegistryWords {
    name: "the registry's database",
    servers_key: "database.url",
    fleet: "this fleet of the registry's database",
    other_fleet: "database.name to a fleet of its own",
    fleet_record: "the record \"leafd\" in the table leafd_worker",
    no_worker_id: "no worker ID yet, the registry's database has to give one",
    served_from_file: "worker ID from the worker file, the registry's database does not answer; other \
                       instances' clocks are not asked",
    fenced: |seconds| {
        format!(
            "the registry's database has not taken a report for {seconds} s (worker.fence-after), so the \
             worker ID may become another's; IDs go on when it can be reached"
        )
    },
    not_told_of_the_end: |why| format!("the registry's database was not told of the end: {why}"),
    no_address: |why| {
        let why = if why.is_empty() { "it has a Unix socket" } else { why };
        format!(
            "this host's address towards the registry's database cannot be found ({why}); correct \
             database.url, or set peer.advertise"
        )
    },
};
