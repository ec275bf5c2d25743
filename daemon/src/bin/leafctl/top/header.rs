//! What `top` shows above the tags: leafd, both schemes with their rates, and what fails. No IO.

use std::time::Duration;

use leaf_client::wire::DaemonStatus;
use leafd::duration::rough;

use super::glyphs::sparkline;
use super::rates::CountRate;
use crate::output::{grouped, harmless};
use crate::screen::{Line, Screen, Tone};
use crate::status::summary;
use crate::text::wrapped;

/// Lines of a failure on a terminal: of a long one, the beginning says enough.
const MOST_LINES: usize = 2;

/// What leafd counts over all tags.
#[derive(Debug, Default)]
pub(super) struct TotalRates {
    requests: CountRate,
    segments: CountRate,
    snowflakes: CountRate,
}

impl TotalRates {
    pub(super) fn note(&mut self, at: Duration, status: &DaemonStatus) {
        self.requests.note(at, status.requests);
        self.segments.note(at, status.segments.issued);
        self.snowflakes.note(at, status.snowflake.issued);
    }
}

/// The lines about leafd's last status. On a terminal, only failures take more than one.
pub(super) fn header(
    status: &DaemonStatus,
    rates: &TotalRates,
    screen: Option<&Screen>,
) -> Vec<Line> {
    let mut lines = vec![
        Line::plain(format!(
            "leafd      {}, up {}, pid {}, requests {}/s, connections {}",
            harmless(&status.version),
            rough(status.uptime_ms / 1000 * 1000),
            status.pid,
            shown(&rates.requests),
            grouped(status.connections.into()),
        )),
        segments(status, rates, screen),
        snowflake(status, rates, screen),
    ];
    if let Some(screen) = screen {
        lines.iter_mut().for_each(|line| line.text = crate::text::cut(&line.text, screen.columns));
    }
    // In the line about the scheme, a reason could be cut.
    let (state, tone) = summary::state(&status.snowflake);
    let state = (tone != Tone::Plain).then(|| (format!("snowflake IDs: {state}"), tone));
    let failure = |text| (text, Tone::Failure);
    let troubles = [
        summary::store_failure(&status.segments).map(failure),
        state,
        summary::registry_failure(&status.snowflake).map(failure),
    ];
    for (text, tone) in troubles.into_iter().flatten() {
        lines.extend(trouble(&text, tone, screen));
    }
    lines
}

/// A text of a few lines at most.
pub(super) fn trouble(text: &str, tone: Tone, screen: Option<&Screen>) -> Vec<Line> {
    let texts = match screen {
        Some(screen) => wrapped(text, screen.columns.max(1)),
        None => vec![text.to_owned()],
    };
    texts.into_iter().take(MOST_LINES).map(|text| Line { text, tone }).collect()
}

fn segments(status: &DaemonStatus, rates: &TotalRates, screen: Option<&Screen>) -> Line {
    let totals = &status.segments;
    let text = format!(
        "segments   {}, tags {}, waiting {}, issued {}, leases {}, {}",
        rate(&rates.segments, screen),
        grouped(totals.tags),
        grouped(totals.waiting),
        grouped(totals.issued),
        grouped(totals.leases),
        harmless(&totals.store),
    );
    let tone = match totals.waiting {
        0 => Tone::Plain,
        _ => Tone::Warning,
    };
    Line { text, tone }
}

fn snowflake(status: &DaemonStatus, rates: &TotalRates, screen: Option<&Screen>) -> Line {
    let (state, tone) = summary::state(&status.snowflake);
    let state = state.split(':').next().unwrap_or_default().to_owned();
    let (end, end_tone) = summary::layout_end(&status.snowflake);
    let text = format!(
        "snowflake  {}, {state}, {}, issued {}{}",
        rate(&rates.snowflakes, screen),
        summary::worker(&status.snowflake),
        grouped(status.snowflake.issued),
        end.replacen(", ends", ", layout ends", 1),
    );
    Line { text, tone: if tone == Tone::Plain { end_tone } else { tone } }
}

/// The rate and, on a terminal, its sparkline.
fn rate(rate: &CountRate, screen: Option<&Screen>) -> String {
    let now = shown(rate);
    match screen {
        // A quarter is for the sparkline, on the left; the width of the rate changes less often.
        Some(screen) if screen.columns >= 60 => {
            let width = (screen.columns / 8).clamp(8, 24);
            format!("{} {now}/s", sparkline(rate.history(), width))
        }
        _ => format!("{now}/s"),
    }
}

fn shown(rate: &CountRate) -> String {
    rate.now().map_or_else(|| "-".to_owned(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::status;
    use leaf_client::wire::SnowflakeState;

    fn texts(status: &DaemonStatus, columns: Option<usize>) -> Vec<String> {
        let mut rates = TotalRates::default();
        for second in 0..3 {
            let mut status = status.clone();
            status.requests += second * 7;
            status.segments.issued += second * second * 50;
            rates.note(Duration::from_secs(second), &status);
        }
        let screen =
            columns.map(|columns| Screen { columns, rows: 24, colours: false, redraws: true });
        header(status, &rates, screen.as_ref()).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn three_lines_say_how_leafd_is_and_further_ones_what_fails() {
        let mut status = status(SnowflakeState::Serving);
        status.segments.store_error = String::new();
        status.snowflake.registry_error = String::new();
        let lines = texts(&status, Some(80));
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert_eq!(
            lines[0],
            "leafd      0.1.0, up 1 h 0 min, pid 7, requests 7.0/s, connections 3"
        );
        assert!(
            lines[1].starts_with("segments           ▄█ 150/s, tags 1, waiting 0"),
            "{lines:#?}"
        );
        assert!(lines[2].contains(" 0/s, serving, worker 513 by fixed, issued"), "{lines:#?}");
        assert_eq!(texts(&status, None)[1].split(',').next(), Some("segments   150/s"));
        status.segments.store_error = "the disk is full".to_owned();
        status.snowflake.state = SnowflakeState::Refused { reason: "a reason ".repeat(30) };
        for columns in [40, 80, 200] {
            let lines = texts(&status, Some(columns));
            assert_eq!(lines[3], "the store failed: the disk is full");
            assert!(lines[4].starts_with("snowflake IDs: refused: a reason"), "{lines:#?}");
            assert!(lines.len() <= 3 + 1 + MOST_LINES, "{lines:#?}");
            assert!(lines.iter().all(|line| crate::text::width(line) <= columns), "{lines:#?}");
        }
    }
}
