//! leafd's examples.

use super::{Examples, example};

pub(super) const EXAMPLES: Examples = &[
    (
        "leafd",
        &[
            example("leafd", "Serve this host alone, from an embedded store"),
            example("leafd --config /etc/leafd/leafd.toml", "Serve as the file says"),
            example("leafd ctl next orders", "Get an ID from the running leafd"),
        ],
    ),
    (
        "leafd ctl",
        &[
            example("leafd ctl next orders", "Get an ID from the running leafd"),
            example("leafd ctl --help", "See all commands"),
        ],
    ),
    (
        "leafd check",
        &[
            example("leafd check", "Check the configuration before a restart"),
            example("leafd check --config new.toml --without-secrets", "Check another file"),
        ],
    ),
    (
        "leafd schema",
        &[
            example("leafd schema mysql | mysql leaf", "Create the tables in MySQL"),
            example("leafd schema postgres", "See the tables for PostgreSQL"),
        ],
    ),
    (
        "leafd division",
        &[example("leafd division show", "See which database has which share of the IDs")],
    ),
    (
        "leafd division make",
        &[
            example("leafd division make", "Give each database of store.urls its share"),
            example("leafd division make --shares 16", "Divide the IDs into sixteen shares"),
        ],
    ),
    (
        "leafd division show",
        &[example("leafd division show", "See which database has which share of the IDs")],
    ),
    (
        "leafd division close",
        &[example("leafd division close 2", "Retire the database that has share 2")],
    ),
    ("leafd division open", &[example("leafd division open 2", "Lease from it again")]),
    (
        "leafd default-config",
        &[example("leafd default-config > leafd.toml", "Begin a configuration")],
    ),
    (
        "leafd adopt",
        &[
            example("leafd adopt", "Take over a disk that was moved to this machine"),
            example(
                "leafd adopt --above orders=5000000 --above users=70000",
                "Begin above these IDs after the embedded store was restored from a backup",
            ),
            example("leafd adopt --lost", "Replace a state directory that is gone"),
        ],
    ),
    (
        "leafd hand-back",
        &[
            example("leafd hand-back", "Give the worker ID's node back to Java Leaf"),
            example("leafd hand-back --undo", "Use the worker ID again"),
        ],
    ),
    (
        "leafd audit",
        &[
            example("leafd audit host-*/leases.log", "Compare the lease logs of all hosts"),
            example("leafd audit --json /var/lib/leafd", "Check this host's log in a script"),
        ],
    ),
];
