//! Describes leafd's status in one line, which `systemctl status` shows.

use leaf_client::wire::{DaemonStatus, ErrorCode, SegmentTotals, SnowflakeState, SnowflakeStatus};

use crate::duration::rough;

#[must_use]
pub(crate) fn status(status: &DaemonStatus) -> String {
    format!("{}; {}", segments(&status.segments), snowflakes(&status.snowflake))
}

fn segments(totals: &SegmentTotals) -> String {
    let tags = match totals.tags {
        1 => "1 tag".to_owned(),
        tags => format!("{tags} tags"),
    };
    // The store is described as "sqlite /var/lib/leafd/leafd.db", whose path is of no interest
    // here.
    let store = match totals.store.split(' ').next() {
        Some("sqlite") => "the embedded store",
        _ => &totals.store,
    };
    if !totals.store_error.is_empty() {
        let waiting = match totals.waiting {
            0 => String::new(),
            1 => ", 1 request waits".to_owned(),
            waiting => format!(", {waiting} requests wait"),
        };
        return format!(
            "Serving from memory: {store} fails ({}); {tags}{waiting}",
            totals.store_error
        );
    }
    format!("Serving; {tags} from {store}")
}

fn snowflakes(status: &SnowflakeStatus) -> String {
    let registry = match status.registry_error.as_str() {
        "" => String::new(),
        error => format!(" (the registry does not answer: {error})"),
    };
    match (&status.state, status.worker) {
        (SnowflakeState::Serving, Some(worker)) => {
            format!("snowflakes with worker ID {worker}{registry}")
        }
        (SnowflakeState::Serving, None) => format!("snowflakes{registry}"),
        (SnowflakeState::ClockBehind { behind_ms }, _) => {
            let code = ErrorCode::ClockBackwards;
            format!("no snowflake IDs: {code}: the clock is {} behind", rough(*behind_ms))
        }
        (SnowflakeState::Refused { reason }, _) => format!("no snowflake IDs: {reason}"),
        (SnowflakeState::Starting { reason }, _) => {
            format!("no snowflake IDs yet: {reason}{registry}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(state: SnowflakeState) -> DaemonStatus {
        DaemonStatus {
            version: "0.1.0".into(),
            pid: 1,
            uptime_ms: 5,
            connections: 0,
            requests: 0,
            state_dir: "/var/lib/leafd".into(),
            segments: SegmentTotals {
                store: "sqlite /var/lib/leafd/leafd.db".into(),
                store_error: String::new(),
                tags: 3,
                waiting: 0,
                issued: 0,
                leases: 0,
            },
            snowflake: SnowflakeStatus {
                state,
                worker: Some(7),
                registry: "zookeeper".into(),
                layout: "leaf".into(),
                ceiling_unix_ms: 0,
                last_unix_ms: 0,
                clock_unix_ms: 0,
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

    #[test]
    fn the_line_says_what_leafd_serves_and_from_where() {
        let mut daemon = daemon(SnowflakeState::Serving);
        assert_eq!(
            status(&daemon),
            "Serving; 3 tags from the embedded store; snowflakes with worker ID 7"
        );
        daemon.segments.store = "mysql leaf@db:3306/leaf".into();
        daemon.segments.store_error = "connection refused".into();
        daemon.segments.tags = 1;
        daemon.segments.waiting = 2;
        daemon.snowflake.registry_error = "connection refused".into();
        assert_eq!(
            status(&daemon),
            "Serving from memory: mysql leaf@db:3306/leaf fails (connection refused); \
             1 tag, 2 requests wait; snowflakes with worker ID 7 (the registry does not answer: \
             connection refused)"
        );
    }

    #[test]
    fn the_line_says_why_there_are_no_snowflake_ids() {
        for (state, words) in [
            (
                SnowflakeState::ClockBehind { behind_ms: 61_000 },
                "no snowflake IDs: 304 ClockBackwards: the clock is 1 min 1 s behind",
            ),
            (SnowflakeState::Refused { reason: "so".into() }, "no snowflake IDs: so"),
            (SnowflakeState::Starting { reason: "so".into() }, "no snowflake IDs yet: so"),
        ] {
            let line = status(&daemon(state));
            assert!(line.ends_with(&format!("; {words}")), "{line}");
        }
    }
}
