//! `leafctl status`: the daemon's state, as text or as JSON.

mod view;

use std::io::Write;

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{
    DaemonStatus, ErrorCode, SegmentTotals, SnowflakeState, SnowflakeStatus, TagStatus,
};
use leafd::duration::rough;

use self::view::StatusView;
use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};
use crate::tag;
use leafd::rfc3339::rfc3339;

/// Most tags in the text output.
const SHOWN_TAGS: usize = 100;

/// Prints the status. Any status is a success, even one that reports failures.
///
/// # Errors
/// The daemon's refusals, and `Output`.
pub(crate) fn run<W: Write>(
    client: &mut Client,
    json: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let status = client.status()?;
    let (mut forbidden, mut old) = (None, false);
    // A person reads a screen or two; a program wants every tag in use.
    let most = if json { usize::MAX } else { SHOWN_TAGS };
    let tags = tag::up_to(most, |after, limit| {
        let page = if old { client.tag_list(after, limit) } else { client.tags_used(after, limit) };
        match page {
            // Only administrators may see tags; everyone may see the rest.
            Err(Error::Refused(error)) if error.code() == ErrorCode::Forbidden => {
                forbidden = Some(error.message);
                Ok(Vec::new())
            }
            // Version 0.1.0 can only list all tags, not those in use.
            Err(Error::Refused(error)) if error.code() == ErrorCode::UnknownCall => {
                old = true;
                client.tag_list(after, limit)
            }
            page => page,
        }
    })?;
    match forbidden {
        None => print(&status, Some(&tags), json, out),
        Some(why) => {
            print(&status, None, json, out)?;
            if !json {
                out.line(format_args!("\nThe tags are not shown: {}", harmless(&why)))?;
            }
            Ok(())
        }
    }
}

fn print<W: Write>(
    status: &DaemonStatus,
    tags: Option<&[TagStatus]>,
    json: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    if json {
        return out.json(&StatusView::new(status, tags));
    }
    out.line(format_args!(
        "leafd      {}, pid {}, up {}, connections {}, requests {}, state in {}",
        harmless(&status.version),
        status.pid,
        rough(status.uptime_ms),
        grouped(status.connections.into()),
        grouped(status.requests),
        harmless(&status.state_dir),
    ))?;
    segments(&status.segments, out)?;
    snowflake(&status.snowflake, out)?;
    match tags {
        None | Some([]) => Ok(()),
        Some(tags) => {
            out.line("")?;
            tag::print_ranges(tags, out)?;
            let more = status.segments.tags.saturating_sub(tags.len() as u64);
            if tags.len() >= SHOWN_TAGS && more > 0 {
                out.line(format_args!(
                    "The first {} of {} tags; leafctl tag show TAG shows any of them",
                    tags.len(),
                    grouped(status.segments.tags),
                ))?;
            }
            Ok(())
        }
    }
}

fn segments<W: Write>(totals: &SegmentTotals, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!(
        "segments   {}; tags {}, IDs issued {}, leases {}, waiting {}",
        harmless(&totals.store),
        grouped(totals.tags),
        grouped(totals.issued),
        grouped(totals.leases),
        grouped(totals.waiting),
    ))?;
    if !totals.store_error.is_empty() {
        out.line(format_args!("           the store failed: {}", harmless(&totals.store_error)))?;
    }
    Ok(())
}

fn snowflake<W: Write>(status: &SnowflakeStatus, out: &mut Output<W>) -> Result<(), Failure> {
    let state = match &status.state {
        SnowflakeState::Serving => "serving".to_owned(),
        SnowflakeState::ClockBehind { behind_ms } => {
            format!("waiting: the clock is {} behind", rough(*behind_ms))
        }
        SnowflakeState::Refused { reason } => format!("refused: {}", harmless(reason)),
        SnowflakeState::Starting { reason } => format!("starting: {}", harmless(reason)),
    };
    out.line(format_args!("snowflake  {state}"))?;
    let worker = status
        .worker
        .map_or_else(|| "no worker ID".to_owned(), |worker| format!("worker {worker}"));
    out.line(format_args!(
        "           {worker} by {}, layout {}, IDs issued {}",
        harmless(&status.registry),
        harmless(&status.layout),
        grouped(status.issued),
    ))?;
    registration(status, out)?;
    for (name, unix_ms) in [
        ("clock", status.clock_unix_ms),
        ("last ID", status.last_unix_ms),
        ("ceiling", status.ceiling_unix_ms),
    ] {
        if unix_ms > 0 {
            out.line(format_args!("           {name:<8} {}", rfc3339(unix_ms)))?;
        }
    }
    if let Some(offset_ms) = status.clock_offset_ms {
        let side = if offset_ms < 0 { "behind" } else { "ahead" };
        let distance = rough(offset_ms.unsigned_abs());
        out.line(format_args!(
            "           peers    {}, {distance} {side} on average",
            status.peers
        ))?;
    }
    Ok(())
}

/// What a registry with a list of instances knows about this leafd.
fn registration<W: Write>(status: &SnowflakeStatus, out: &mut Output<W>) -> Result<(), Failure> {
    if !status.identity.is_empty() {
        let report = match status.last_report_ms_ago {
            Some(ms_ago) => format!("last report {} ago", rough(ms_ago)),
            None => "no report yet".to_owned(),
        };
        out.line(format_args!("           identity {}, {report}", harmless(&status.identity)))?;
    }
    if !status.registry_error.is_empty() {
        let until = status.limit_unix_ms.map(|limit| format!("; IDs until {}", rfc3339(limit)));
        out.line(format_args!(
            "           the registry failed: {}{}",
            harmless(&status.registry_error),
            until.unwrap_or_default(),
        ))?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::output::tests::printed as output;

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
        printed_with(status, &[tag::tests::tag("order")], json)
    }

    fn printed_with(status: &DaemonStatus, tags: &[TagStatus], json: bool) -> String {
        output(|out| print(status, Some(tags), json, out))
    }

    #[test]
    fn the_text_shows_the_daemon_its_store_its_worker_and_every_tag() {
        let text = printed(&status(SnowflakeState::Serving), false);
        for part in [
            "0.1.0, pid 7, up 1 h 0 min, connections 3, requests 1,234,567",
            "disk full\\u{1b}",
            "snowflake  serving",
            "worker 513 by fixed",
            "ceiling  2020-09-13T12:26:43.000Z",
            "order",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        for part in ["last ID", "identity", "report", "registry", "peers"] {
            assert!(!text.contains(part), "{part} is in:\n{text}");
        }
    }

    #[test]
    fn the_text_says_how_many_tags_it_leaves_out() {
        let mut status = status(SnowflakeState::Serving);
        let names = (0..SHOWN_TAGS).map(|number| tag::tests::tag(&format!("tag-{number:03}")));
        let tags: Vec<_> = names.collect();
        status.segments.tags = 100;
        assert!(!printed_with(&status, &tags, false).contains("The first"));
        status.segments.tags = 12_345;
        let text = printed_with(&status, &tags, false);
        assert!(text.contains("The first 100 of 12,345 tags;"), "{text}");
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
