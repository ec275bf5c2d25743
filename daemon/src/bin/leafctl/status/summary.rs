//! What the status says above the tags: leafd itself, its store, its snowflake IDs.

use leaf_client::Layout;
use leaf_client::wire::{DaemonStatus, SegmentTotals, SnowflakeState, SnowflakeStatus};
use leafd::duration::rough;
use leafd::rfc3339::rfc3339;

use crate::output::{grouped, harmless};
use crate::screen::Tone;

/// A layout that ends sooner than this is a warning: changing it takes a plan for every host.
const YEAR_MS: u64 = 365 * 86_400_000;

/// A paragraph: what it is about, empty if it goes on about the same, and a text.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Entry {
    fn plain(label: &'static str, text: String) -> Self {
        Self { label, text, tone: Tone::Plain }
    }

    fn toned(tone: Tone, text: String) -> Self {
        Self { label: "", text, tone }
    }
}

/// All that there is to say but the tags.
pub(super) fn entries(status: &DaemonStatus) -> Vec<Entry> {
    let mut entries = vec![Entry::plain(
        "leafd",
        format!(
            "{}, pid {}, up {}, connections {}, requests {}, state in {}",
            harmless(&status.version),
            status.pid,
            rough(status.uptime_ms),
            grouped(status.connections.into()),
            grouped(status.requests),
            harmless(&status.state_dir),
        ),
    )];
    segments(&status.segments, &mut entries);
    snowflake(&status.snowflake, &mut entries);
    entries
}

/// When the layout of the snowflake IDs ends, in milliseconds since 1970.
pub(crate) fn layout_end_ms(status: &SnowflakeStatus) -> Option<u64> {
    status.layout.parse::<Layout>().ok().map(|layout| layout.end_ms())
}

fn segments(totals: &SegmentTotals, to: &mut Vec<Entry>) {
    to.push(Entry {
        label: "segments",
        text: format!(
            "{}; tags {}, IDs issued {}, leases {}, waiting {}",
            harmless(&totals.store),
            grouped(totals.tags),
            grouped(totals.issued),
            grouped(totals.leases),
            grouped(totals.waiting),
        ),
        tone: if totals.waiting > 0 { Tone::Warning } else { Tone::Plain },
    });
    to.extend(store_failure(totals).map(|text| Entry::toned(Tone::Failure, text)));
}

/// Why the store failed; none if it works.
pub(crate) fn store_failure(totals: &SegmentTotals) -> Option<String> {
    let error = &totals.store_error;
    (!error.is_empty()).then(|| format!("the store failed: {}", harmless(error)))
}

/// Whether there are snowflake IDs.
pub(crate) fn state(status: &SnowflakeStatus) -> (String, Tone) {
    match &status.state {
        SnowflakeState::Serving => ("serving".to_owned(), Tone::Plain),
        SnowflakeState::ClockBehind { behind_ms } => {
            (format!("waiting: the clock is {} behind", rough(*behind_ms)), Tone::Warning)
        }
        SnowflakeState::Refused { reason } => {
            (format!("refused: {}", harmless(reason)), Tone::Failure)
        }
        SnowflakeState::Starting { reason } => {
            (format!("starting: {}", harmless(reason)), Tone::Warning)
        }
    }
}

fn snowflake(status: &SnowflakeStatus, to: &mut Vec<Entry>) {
    let (text, tone) = state(status);
    to.push(Entry { label: "snowflake", text, tone });
    let issued = grouped(status.issued);
    to.push(Entry::plain("", format!("{}, IDs issued {issued}", worker(status))));
    to.push(layout(status));
    registration(status, to);
    for (name, unix_ms) in [
        ("clock", status.clock_unix_ms),
        ("last ID", status.last_unix_ms),
        ("ceiling", status.ceiling_unix_ms),
    ] {
        if unix_ms > 0 {
            to.push(Entry::plain("", format!("{name:<8} {}", rfc3339(unix_ms))));
        }
    }
    if let Some(offset_ms) = status.clock_offset_ms {
        let side = if offset_ms < 0 { "behind" } else { "ahead" };
        let distance = rough(offset_ms.unsigned_abs());
        let text = format!("peers    {}, {distance} {side} on average", status.peers);
        to.push(Entry::plain("", text));
    }
}

/// The worker ID and where it comes from.
pub(crate) fn worker(status: &SnowflakeStatus) -> String {
    let registry = harmless(&status.registry);
    match status.worker {
        Some(worker) => format!("worker {worker} by {registry}"),
        None => format!("no worker ID by {registry}"),
    }
}

fn layout(status: &SnowflakeStatus) -> Entry {
    let (end, tone) = layout_end(status);
    Entry::toned(tone, format!("layout   {}{end}", harmless(&status.layout)))
}

/// The day on which the layout ends, and in how long if that is soon.
pub(crate) fn layout_end(status: &SnowflakeStatus) -> (String, Tone) {
    let Some(end_ms) = layout_end_ms(status) else { return (String::new(), Tone::Plain) };
    let moment = rfc3339(end_ms);
    let date = moment.split_once('T').map_or(moment.as_str(), |(date, _)| date);
    match end_ms.saturating_sub(status.clock_unix_ms) {
        soon_ms @ ..YEAR_MS => (format!(", ends {date}, in {}", rough(soon_ms)), Tone::Warning),
        _ => (format!(", ends {date}"), Tone::Plain),
    }
}

/// What a registry with a list of instances knows about this leafd.
fn registration(status: &SnowflakeStatus, to: &mut Vec<Entry>) {
    if !status.identity.is_empty() {
        let report = match status.last_report_ms_ago {
            Some(ms_ago) => format!("last report {} ago", rough(ms_ago)),
            None => "no report yet".to_owned(),
        };
        to.push(Entry::plain("", format!("identity {}, {report}", harmless(&status.identity))));
    }
    to.extend(registry_failure(status).map(|text| Entry::toned(Tone::Failure, text)));
}

/// Why the registry failed, and until when there are IDs without it; none if it works.
pub(crate) fn registry_failure(status: &SnowflakeStatus) -> Option<String> {
    let error = &status.registry_error;
    let until = status.limit_unix_ms.map(|limit| format!("; IDs until {}", rfc3339(limit)));
    let until = until.unwrap_or_default();
    (!error.is_empty()).then(|| format!("the registry failed: {}{until}", harmless(error)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::status;
    use super::*;

    #[test]
    fn a_layout_that_ends_within_a_year_is_a_warning_with_the_time_left() {
        let mut status = status(SnowflakeState::Serving).snowflake;
        assert_eq!(layout(&status).tone, Tone::Plain);
        status.clock_unix_ms = 3_487_858_230_209 - 50 * 3_600_000;
        let soon = layout(&status);
        let text = "layout   41/10/12@1288834974657/1ms, ends 2080-07-10, in 2 d 2 h";
        assert_eq!((soon.text.as_str(), soon.tone), (text, Tone::Warning));
        status.layout = "of a later version".to_owned();
        assert_eq!(layout(&status).text, "layout   of a later version");
    }
}
