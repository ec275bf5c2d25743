//! leafctl's examples.

use super::{Examples, example};

pub(super) const EXAMPLES: Examples = &[
    (
        "leafctl",
        &[
            example("leafctl next orders", "Get an ID of the biz tag orders"),
            example("leafctl status", "See whether leafd serves and, if not, why"),
            example(
                "leafctl --socket /run/leafd/leafd.sock status --timeout 1s",
                "Ask a certain leafd, and wait for a second at most",
            ),
        ],
    ),
    (
        "leafctl next",
        &[
            example("leafctl next orders", "Get an ID of the biz tag orders"),
            example("leafctl next orders --count 1000 > ids.txt", "Get a thousand at once"),
            example("leafctl next orders --json | jq -r .id", "Get an ID in a script"),
        ],
    ),
    (
        "leafctl snowflake",
        &[
            example("leafctl snowflake", "Get a snowflake ID"),
            example("leafctl snowflake -n 3 | leafctl decode -", "Get three, and take them apart"),
        ],
    ),
    (
        "leafctl decode",
        &[
            example("leafctl decode 2124029785372885063", "See when and where an ID was made"),
            example(
                "leafctl decode --layout twitter --json 1541815603606036480",
                "Decode an ID of another generator",
            ),
            example("leafctl decode --json - < ids.txt", "Decode an ID per line of a file"),
        ],
    ),
    (
        "leafctl status",
        &[
            example("leafctl status", "See the tags, the worker ID and the clock"),
            example("leafctl status --watch", "Watch leafd, also over a restart; q ends"),
            example("leafctl status --json | jq .segments", "Read the totals in a script"),
        ],
    ),
    (
        "leafctl top",
        &[
            example("leafctl top", "Watch the busiest tags live"),
            example("leafctl top --sort urgency --interval 5s", "Watch those in trouble, calmly"),
            example("leafctl top --count 2 > rates.txt", "Keep the rates of one second"),
        ],
    ),
    (
        "leafctl forecast",
        &[
            example("leafctl forecast", "See which tags outgrow their columns, and when"),
            example("leafctl forecast orders", "See it of one tag"),
            example(
                "leafctl forecast --json | jq '.tags[] | {tag, at: .limits.int32.at}'",
                "Read in a script when each tag outgrows INT columns",
            ),
        ],
    ),
    (
        "leafctl doctor",
        &[
            example("leafctl doctor", "See what is wrong with this host, and what to do"),
            example(
                "leafctl doctor --config /etc/leafd/other.toml --all",
                "Examine a leafd with a file of its own, and see what is fine, too",
            ),
        ],
    ),
    (
        "leafctl explain",
        &[
            example("leafctl explain 302", "See what an error means, and what to do"),
            example(
                "leafctl explain 'the store fails; IDs come from memory'",
                "Look up a line of the log",
            ),
        ],
    ),
    (
        "leafctl health",
        &[
            example("leafctl health", "Probe whether leafd is alive"),
            example("leafctl health --ready --json", "Probe whether leafd can issue IDs"),
        ],
    ),
    (
        "leafctl tag",
        &[
            example("leafctl tag list", "See all tags"),
            example("leafctl tag create orders", "Create a tag that begins at 1"),
        ],
    ),
    (
        "leafctl tag list",
        &[
            example("leafctl tag list", "See all tags"),
            example("leafctl tag list --json | jq -r '.[].tag'", "List the names alone"),
        ],
    ),
    (
        "leafctl tag create",
        &[
            example("leafctl tag create orders", "Create a tag that begins at 1"),
            example(
                "leafctl tag create orders --first 5000001 --step 10000",
                "Go on above the IDs of another generator, and lease 10,000 at a time",
            ),
        ],
    ),
    (
        "leafctl tag set-step",
        &[example("leafctl tag set-step orders 10000", "Lease 10,000 IDs at a time")],
    ),
    (
        "leafctl tag delete",
        &[
            example("leafctl tag delete odrers", "Delete a tag that a typo made"),
            example("leafctl tag delete --yes odrers", "Do so in a script, without a question"),
        ],
    ),
    (
        "leafctl tag show",
        &[example("leafctl tag show orders", "See the ranges and the rate of a tag")],
    ),
    ("leafctl worker", &[example("leafctl worker list", "See who has which worker ID")]),
    (
        "leafctl worker list",
        &[
            example("leafctl worker list", "See who has which worker ID"),
            example("leafctl worker list --json | jq length", "Count the worker IDs in use"),
            example("leafctl worker list --pool default", "See what leafctl run has borrowed"),
        ],
    ),
    (
        "leafctl worker release",
        &[
            example("leafctl worker release 17", "Release worker ID 17, and confirm its owner"),
            example(
                "leafctl worker release 17 --owner host-17",
                "Do so in a script, without a question",
            ),
            example("leafctl worker release 17 --pool default", "Release one of a pool"),
        ],
    ),
    (
        "leafctl store",
        &[example("leafctl store accept-loss", "See the epoch and who has not confirmed it")],
    ),
    (
        "leafctl store accept-loss",
        &[
            example("leafctl store accept-loss", "See the epoch and who has not confirmed it"),
            example(
                "leafctl store accept-loss --epoch 7 --margin 5000000",
                "Go on without a host that is gone for good",
            ),
        ],
    ),
    (
        "leafctl run",
        &[
            example(
                "leafctl run --worker-env WORKER_ID -- java -jar app.jar",
                "Start a service with a worker ID of its own",
            ),
            example(
                "leafctl run --pool ten --worker-file /run/app/worker -- /usr/bin/app",
                "Take the worker ID from the pool ten, and pass it in a file",
            ),
        ],
    ),
    (
        "leafctl bench",
        &[
            example(
                "leafctl bench --connections 4 --in-flight 64",
                "Measure the throughput of 4 busy connections",
            ),
            example(
                "leafctl bench --snowflake --count 1000 --duration 1m --verify",
                "Check for a minute that no ID comes twice",
            ),
            example(
                "leafctl bench --pool ordered --threads 2",
                "Measure a pool that two threads of a process share",
            ),
            example(
                "leafctl bench --pool per-thread --threads 8 --verify --json | jq .duplicates",
                "Check the IDs of a pool with a handle for each thread",
            ),
        ],
    ),
    (
        "leafctl version",
        &[example("leafctl version", "See whether leafd has restarted since an upgrade")],
    ),
    (
        "leafctl completions",
        &[
            example(
                "leafctl completions bash > ~/.local/share/bash-completion/completions/leafctl",
                "Complete leafctl in bash, from the next shell on",
            ),
            example(
                "leafctl completions fish > ~/.config/fish/completions/leafctl.fish",
                "Complete leafctl in fish",
            ),
        ],
    ),
];
