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

/// What an operator can do about an error of etcd, which has no more than a text.
pub(super) fn explain(error: &str, has_user: bool) -> String {
    let remedy = if error.contains("permission denied") {
        "the role of etcd.user has to read and write the keys below /leafd/NAME/"
    } else if error.contains("user name is empty") {
        "it wants a user: set etcd.user and its password"
    } else if error.contains("authentication failed") || error.contains("auth token") && has_user {
        "see etcd.user and its password"
    } else if error.contains("database space exceeded") {
        "compact and defragment it, then disarm its alarm"
    } else {
        return error.to_owned();
    };
    format!("{error}; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_an_operator_can_mend_says_how() {
        for (error, remedy) in [
            ("etcdserver: permission denied", "below /leafd/NAME/"),
            ("etcdserver: user name is empty", "set etcd.user"),
            ("etcdserver: authentication failed, invalid user ID or password", "see etcd.user"),
            ("etcdserver: mvcc: database space exceeded", "disarm"),
        ] {
            let text = explain(error, true);
            assert!(text.starts_with(error) && text.contains(remedy), "{text}");
        }
        assert_eq!(explain("etcdserver: no leader", true), "etcdserver: no leader");
    }
}
