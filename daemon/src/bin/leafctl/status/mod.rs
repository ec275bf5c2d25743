//! `leafctl status`: the daemon's state, as text or as JSON.

pub(crate) mod gather;
mod page;
pub(crate) mod summary;
mod view;
mod watch;

use std::io::Write;

use leafd::cli::leafctl::{DaemonArgs, StatusArgs};

pub(crate) use self::page::MOST_READ;
use self::view::StatusView;
use crate::connect;
use crate::exit::Failure;
use crate::output::Output;
use crate::screen::{self, Screen};

/// Prints the status. Any status is a success, even one that reports failures.
///
/// # Errors
/// The daemon's refusals, and `Output`.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &StatusArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let screen = Screen::of_stdout();
    if let Some(interval) = args.watch {
        return watch::run(daemon, args, interval, out);
    }
    let mut client = connect::prompt(daemon)?;
    let snapshot = gather::read(&mut client, most(args, screen.as_ref()))?;
    if args.json {
        return out.json(&StatusView::new(&snapshot.status, snapshot.tags.as_deref().ok()));
    }
    // The shell's prompt takes the last row.
    let fits = screen.map(|screen| Screen { rows: screen.rows.saturating_sub(1), ..screen });
    screen::print(&page::page(&snapshot, args, fits.as_ref()), screen.as_ref(), out)
}

/// How many tags to read.
fn most(args: &StatusArgs, screen: Option<&Screen>) -> usize {
    match screen {
        Some(_) if !args.json && !args.all => MOST_READ,
        _ => usize::MAX,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::gather::Snapshot;
    use super::*;
    use crate::output::tests::printed as output;
    use crate::tag;
    use clap::Parser;
    use leaf_client::wire::{DaemonStatus, SegmentTotals, SnowflakeState, SnowflakeStatus};
    use leafd::cli::leafctl::{Cli, LeafctlCommand};

    pub(super) fn arguments(line: &[&str]) -> StatusArgs {
        match Cli::parse_from(["leafctl", "status"].iter().chain(line)).command {
            LeafctlCommand::Status(args) => args,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn snapshot(state: SnowflakeState) -> Snapshot {
        Snapshot { status: status(state), tags: Ok(vec![tag::tests::tag("order")]) }
    }

    pub(crate) fn status(state: SnowflakeState) -> DaemonStatus {
        DaemonStatus {
            version: "0.1.0".to_owned(),
            pid: 7,
            uptime_ms: 3_600_000,
            connections: 3,
            requests: 1_234_567,
            state_dir: "/var/lib/leafd".to_owned(),
            segments: SegmentTotals {
                store: "sqlite".to_owned(),
                store_error: "disk full\x1b".to_owned(),
                tags: 1,
                waiting: 0,
                issued: 42,
                leases: 2,
            },
            snowflake: SnowflakeStatus {
                state,
                worker: Some(513),
                registry: "fixed".to_owned(),
                layout: "41/10/12@1288834974657/1ms".to_owned(),
                ceiling_unix_ms: 1_600_000_003_000,
                last_unix_ms: 0,
                clock_unix_ms: 1_600_000_000_000,
                issued: 0,
                identity: String::new(),
                last_report_ms_ago: None,
                registry_error: String::new(),
                limit_unix_ms: None,
                clock_offset_ms: None,
                peers: 0,
            },
        }
    }

    fn printed(status: &DaemonStatus, json: bool) -> String {
        let snapshot =
            Snapshot { status: status.clone(), tags: Ok(vec![tag::tests::tag("order")]) };
        output(|out| match json {
            true => out.json(&StatusView::new(&snapshot.status, snapshot.tags.as_deref().ok())),
            false => crate::screen::print(&page::page(&snapshot, &arguments(&[]), None), None, out),
        })
    }

    #[test]
    fn the_text_shows_the_daemon_its_store_its_worker_and_every_tag() {
        let text = printed(&status(SnowflakeState::Serving), false);
        for part in [
            "0.1.0, pid 7, up 1 h 0 min, connections 3, requests 1,234,567",
            "disk full\\u{1b}",
            "snowflake  serving",
            "worker 513 by fixed, IDs issued 0\n",
            "layout   41/10/12@1288834974657/1ms, ends 2080-07-10\n",
            "ceiling  2020-09-13T12:26:43.000Z",
            "order",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        for part in ["last ID", "identity", "report", "registry", "peers"] {
            assert!(!text.contains(part), "{part} is in:\n{text}");
        }
    }

    fn registered() -> DaemonStatus {
        let mut status = status(SnowflakeState::Serving);
        status.snowflake.identity = "10.0.0.7:2182".to_owned();
        status.snowflake.last_report_ms_ago = Some(1000);
        status.snowflake.limit_unix_ms = Some(1_600_043_200_000);
        status.snowflake.clock_offset_ms = Some(-12);
        status.snowflake.peers = 3;
        status
    }

    #[test]
    fn the_text_shows_the_registration_and_how_long_ids_last_if_the_registry_fails() {
        let mut status = registered();
        let text = printed(&status, false);
        for part in ["identity 10.0.0.7:2182, last report 1 s ago\n", "peers    3, 12 ms behind on"]
        {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(!text.contains("IDs until"), "{text}");
        status.snowflake.registry_error = "timed out\x1b".to_owned();
        status.snowflake.clock_offset_ms = Some(0);
        let text = printed(&status, false);
        let failed = "the registry failed: timed out\\u{1b}; IDs until 2020-09-14T00:26:40.000Z\n";
        assert!(text.contains(failed) && text.contains("3, 0 ms ahead on average"), "{text}");
        status.snowflake.last_report_ms_ago = None;
        status.snowflake.limit_unix_ms = None;
        let text = printed(&status, false);
        assert!(text.contains("no report yet") && text.contains("timed out\\u{1b}\n"), "{text}");
    }

    #[test]
    fn a_claim_in_progress_shows_as_starting() {
        let starting = SnowflakeState::Starting { reason: "ZooKeeper is down".to_owned() };
        let status = status(starting);
        assert!(printed(&status, false).contains("snowflake  starting: ZooKeeper is down"));
        let value: serde_json::Value = serde_json::from_str(&printed(&status, true)).unwrap();
        assert_eq!(value["snowflake"]["state"], "starting");
        assert_eq!(value["snowflake"]["reason"], "ZooKeeper is down");
    }

    #[test]
    fn json_is_one_object_with_four_parts() {
        let behind = SnowflakeState::ClockBehind { behind_ms: 80 };
        let text = printed(&status(behind), true);
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["daemon"]["requests"], 1_234_567);
        assert_eq!(value["segments"]["store_error"], "disk full\x1b");
        assert_eq!(value["snowflake"]["state"], "clock-behind");
        assert_eq!(value["snowflake"]["behind_ms"], 80);
        assert_eq!(value["snowflake"]["worker"], 513);
        assert_eq!(value["snowflake"]["identity"], "");
        assert!(value["snowflake"]["clock_offset_ms"].is_null());
        assert_eq!(value["snowflake"]["layout_end_unix_ms"], 3_487_858_230_209_u64);
        assert_eq!(value["tags"][0]["tag"], "order");
        let value: serde_json::Value = serde_json::from_str(&printed(&registered(), true)).unwrap();
        assert_eq!(value["snowflake"]["last_report_ms_ago"], 1000);
        assert_eq!(value["snowflake"]["clock_offset_ms"], -12);
        assert_eq!(value["snowflake"]["limit_unix_ms"], 1_600_043_200_000_u64);
        assert_eq!(value["snowflake"]["peers"], 3);
    }

    #[test]
    fn a_refusal_comes_with_its_reason() {
        let refused = SnowflakeState::Refused { reason: "no worker ID".to_owned() };
        assert!(printed(&status(refused), false).contains("refused: no worker ID"));
    }
}
