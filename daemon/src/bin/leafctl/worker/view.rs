//! How leafctl prints worker IDs: as JSON, as a table, or as lines.

use std::io::Write;

use leaf_client::wire::{WorkerState, WorkerStatus};
use leafd::duration::rough;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Output, harmless};
use crate::table::{Align, TextTable};
use leafd::rfc3339::rfc3339;

/// The JSON of a worker ID.
#[derive(Debug, Serialize)]
pub(super) struct WorkerView<'a> {
    worker: u64,
    owner: &'a str,
    address: &'a str,
    state: &'static str,
    live: bool,
    own: bool,
    reported_unix_ms: u64,
    age_ms: u64,
    ceiling_unix_ms: u64,
    limit_unix_ms: Option<u64>,
}

impl<'a> From<&'a WorkerStatus> for WorkerView<'a> {
    fn from(status: &'a WorkerStatus) -> Self {
        // Destructured in full, so that the compiler asks for every new field.
        let WorkerStatus {
            worker,
            owner,
            address,
            state,
            live,
            own,
            reported_unix_ms,
            age_ms,
            ceiling_unix_ms,
            limit_unix_ms,
        } = status;
        let state = match state {
            WorkerState::Held => "held",
            WorkerState::Settling => "settling",
            WorkerState::Released => "released",
            WorkerState::JavaLeaf => "java-leaf",
        };
        Self {
            worker: *worker,
            owner,
            address,
            state,
            live: *live,
            own: *own,
            reported_unix_ms: *reported_unix_ms,
            age_ms: *age_ms,
            ceiling_unix_ms: *ceiling_unix_ms,
            limit_unix_ms: *limit_unix_ms,
        }
    }
}

pub(super) const fn state(status: &WorkerStatus) -> &'static str {
    match status.state {
        WorkerState::Held if status.live => "live",
        WorkerState::Held => "not live",
        WorkerState::Settling => "settling",
        WorkerState::Released => "released",
        WorkerState::JavaLeaf => "java leaf",
    }
}

/// Time since the last report.
pub(super) fn age(status: &WorkerStatus) -> String {
    rough(status.age_ms)
}

fn marked(status: &WorkerStatus) -> String {
    let mark = if status.own { ", this leafd" } else { "" };
    format!("{}{mark}", state(status))
}

fn moment(unix_ms: Option<u64>) -> String {
    unix_ms.filter(|ms| *ms > 0).map_or_else(|| "-".to_owned(), rfc3339)
}

/// Prints a table of worker IDs.
pub(super) fn print_rows<W: Write>(
    workers: &[WorkerStatus],
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut table = TextTable::new([
        ("WORKER", Align::Right),
        ("OWNER", Align::Left),
        ("ADDRESS", Align::Left),
        ("STATE", Align::Left),
        ("LAST REPORT", Align::Left),
        ("CEILING", Align::Left),
    ]);
    for status in workers {
        table.row([
            status.worker.to_string(),
            harmless(&status.owner),
            harmless(&status.address),
            marked(status),
            format!("{} ago", age(status)),
            moment(Some(status.ceiling_unix_ms)),
        ]);
    }
    table.print(out)
}

/// All that is known of one worker ID: a line each.
pub(super) fn lines(status: &WorkerStatus) -> impl Iterator<Item = String> {
    let reported = moment(Some(status.reported_unix_ms));
    [
        ("worker", status.worker.to_string()),
        ("owner", harmless(&status.owner)),
        ("address", harmless(&status.address)),
        ("state", marked(status)),
        ("last report", format!("{} ago, {reported}", age(status))),
        ("ceiling", moment(Some(status.ceiling_unix_ms))),
        ("limit", moment(status.limit_unix_ms)),
    ]
    .into_iter()
    .map(|(name, value)| format!("{name:<12} {value}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::worker;
    use super::*;
    use crate::output::tests::printed;

    #[test]
    fn the_table_shows_each_owner_and_marks_this_leafds_worker_id() {
        let mut own = WorkerStatus { live: true, own: true, age_ms: 1000, ..worker(7) };
        own.ceiling_unix_ms = 0;
        let text = printed(|out| print_rows(&[own, worker(513)], out));
        let expected = "\
WORKER  OWNER          ADDRESS             STATE             LAST REPORT  CEILING
     7  10.0.0.7:2182  10.0.0.7:2182\\u{7}  live, this leafd  1 s ago      -
   513  10.0.0.7:2182  10.0.0.7:2182\\u{7}  not live          2 d 2 h ago  2020-09-13T12:26:43.000Z
";
        assert_eq!(text, expected);
    }

    #[test]
    fn each_state_has_a_word_in_the_table_and_one_in_json() {
        for (state, live, word, json) in [
            (WorkerState::Held, true, "live", "held"),
            (WorkerState::Held, false, "not live", "held"),
            (WorkerState::Settling, true, "settling", "settling"),
            (WorkerState::Released, false, "released", "released"),
            (WorkerState::JavaLeaf, false, "java leaf", "java-leaf"),
        ] {
            let status = WorkerStatus { state, live, ..worker(1) };
            assert_eq!(super::state(&status), word);
            let value = serde_json::to_value(WorkerView::from(&status)).unwrap();
            assert_eq!((&value["state"], &value["live"]), (&json.into(), &live.into()));
        }
    }

    #[test]
    fn json_has_every_field_of_a_worker_id() {
        let value = serde_json::to_value(WorkerView::from(&worker(513))).unwrap();
        assert_eq!(value["worker"], 513);
        assert_eq!(value["owner"], "10.0.0.7:2182");
        assert_eq!(value["age_ms"], 180_000_000);
        assert_eq!(value["limit_unix_ms"], 1_600_043_200_000_u64);
        assert_eq!(value.as_object().unwrap().len(), 10);
        let unknown = WorkerStatus { limit_unix_ms: None, ..worker(513) };
        let value = serde_json::to_value(WorkerView::from(&unknown)).unwrap();
        assert!(value["limit_unix_ms"].is_null());
    }

    #[test]
    fn the_lines_of_one_worker_id_show_calendar_times() {
        let text = lines(&worker(513)).collect::<Vec<_>>().join("\n");
        for line in [
            "worker       513",
            "state        not live",
            "last report  2 d 2 h ago, 2020-09-13T12:26:40.000Z",
            "ceiling      2020-09-13T12:26:43.000Z",
            "limit        2020-09-14T00:26:40.000Z",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
    }
}
