//! What `--watch` shows: the last status, and since when there is no newer one. No IO.

use std::time::Duration;

use leafd::cli::leafctl::StatusArgs;
use leafd::duration::rough;

use super::super::gather::Snapshot;
use super::super::page::{page, paragraph};
use crate::exit::Failure;
use crate::live::{Contact, Reading, second};
use crate::screen::{Line, Screen, Tone};

/// What is known so far.
#[derive(Debug)]
pub(super) struct History {
    interval: Duration,
    contact: Contact,
    last: Option<(u64, Snapshot)>,
}

impl History {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, contact: Contact::default(), last: None }
    }

    /// Notes what leafd answered.
    ///
    /// # Errors
    /// The failure, if asking again cannot help.
    pub(super) fn note(&mut self, reading: Reading<Snapshot>) -> Result<(), Failure> {
        let at_ms = reading.at_ms;
        if let Some(snapshot) = self.contact.note(reading)? {
            self.last = Some((at_ms, snapshot));
        }
        Ok(())
    }

    /// The whole screen. While leafd is unreachable, that comes first, then its last status.
    pub(super) fn frame(&self, args: &StatusArgs, screen: &Screen) -> Vec<Line> {
        let mut lines = paragraph(&self.heading(), Tone::Heading, Some(screen));
        let unreachable = self.contact.unreachable();
        if let Some(text) = &unreachable {
            lines.extend(paragraph(text, Tone::Failure, Some(screen)));
        }
        if let Some((at_ms, snapshot)) = &self.last {
            lines.push(Line::plain(""));
            if unreachable.is_some() {
                let text = format!("Its last status, of {}:", second(*at_ms));
                lines.extend(paragraph(&text, Tone::Plain, Some(screen)));
            }
            let rows = screen.rows.saturating_sub(lines.len());
            lines.extend(page(snapshot, args, Some(&Screen { rows, ..*screen })));
        }
        while lines.len() > 1 && rows(screen, &lines) > screen.rows {
            lines.pop();
        }
        lines
    }

    /// One block of many: the time, what leafd says at that time, and an empty line.
    pub(super) fn block(&self, args: &StatusArgs, screen: Option<&Screen>) -> Vec<Line> {
        let mut lines = vec![Line {
            text: format!("at {}", self.contact.asked().unwrap_or_default()),
            tone: Tone::Heading,
        }];
        match (self.contact.unreachable(), &self.last) {
            (Some(text), _) => {
                lines.extend(paragraph(&text, Tone::Failure, screen));
            }
            (None, Some((_, snapshot))) => {
                let rest = |screen: &Screen| screen.rows.saturating_sub(2);
                let screen = screen.map(|screen| Screen { rows: rest(screen), ..*screen });
                lines.extend(page(snapshot, args, screen.as_ref()));
            }
            (None, None) => {}
        }
        lines.push(Line::plain(""));
        lines
    }

    fn heading(&self) -> String {
        let interval = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        let moment = self.contact.asked().unwrap_or_else(|| "waiting for leafd".to_owned());
        format!("{moment}, every {}; q ends", rough(interval))
    }
}

fn rows(screen: &Screen, lines: &[Line]) -> usize {
    lines.iter().map(|line| screen.rows_of(&line.text)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{arguments, snapshot};
    use super::*;
    use leaf_client::wire::SnowflakeState;

    const AT: u64 = 1_600_000_000_000;
    const SCREEN: Screen = Screen { columns: 80, rows: 24, colours: false, redraws: true };

    fn watched() -> History {
        let mut history = History::new(Duration::from_secs(2));
        let result = Ok(snapshot(SnowflakeState::Serving));
        history.note(Reading { at_ms: AT, result }).unwrap();
        history
    }

    fn down(history: &mut History, at_ms: u64) {
        let why = "cannot connect to leafd at /s\nIs leafd running?".to_owned();
        let result = Err(Failure::Unavailable(why));
        history.note(Reading { at_ms, result }).unwrap();
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn an_outage_shows_its_begin_above_the_last_status_until_leafd_answers_again() {
        let mut history = watched();
        down(&mut history, AT + 2000);
        down(&mut history, AT + 64_500);
        let frame = text(&history.frame(&arguments(&[]), &SCREEN));
        let begin = "2020-09-13T12:27:44Z, every 2 s; q ends\n\
                     leafd is unreachable since 2020-09-13T12:26:42Z (1 min 2 s): cannot connect to\n\
                     leafd at /s\n\nIts last status, of 2020-09-13T12:26:40Z:\nleafd      0.1.0";
        assert!(frame.starts_with(begin), "{frame}");
        let block = text(&history.block(&arguments(&[]), None));
        assert!(block.starts_with("at 2020-09-13T12:27:44Z\nleafd is unreachable"), "{block}");
        let result = Ok(snapshot(SnowflakeState::Serving));
        history.note(Reading { at_ms: AT + 66_000, result }).unwrap();
        let frame = text(&history.frame(&arguments(&[]), &SCREEN));
        assert!(!frame.contains("unreachable") && !frame.contains("last status"), "{frame}");
        down(&mut history, AT + 70_000);
        let frame = text(&history.frame(&arguments(&[]), &SCREEN));
        assert!(frame.contains("since 2020-09-13T12:27:50Z (0 ms)"), "{frame}");
    }

    #[test]
    fn an_answer_that_no_repetition_changes_ends_the_watch() {
        let result = Err(Failure::Usage("206 Forbidden".to_owned()));
        assert_eq!(watched().note(Reading { at_ms: AT, result }).unwrap_err().code(), 64);
    }

    #[test]
    fn a_frame_never_has_more_rows_than_the_terminal() {
        let mut history = watched();
        for outage in [false, true] {
            if outage {
                down(&mut history, AT + 1);
            }
            for (columns, rows) in [(1, 1), (20, 5), (80, 10), (80, 24), (200, 50)] {
                let screen = Screen { columns, rows, ..SCREEN };
                for line in [&[][..], &["--wide"]] {
                    let frame = history.frame(&arguments(line), &screen);
                    let used = super::rows(&screen, &frame);
                    assert!(used <= rows || frame.len() == 1, "{}", text(&frame));
                }
            }
        }
    }

    #[test]
    fn before_the_first_answer_the_screen_says_what_it_waits_for() {
        let history = History::new(Duration::from_millis(500));
        let frame = text(&history.frame(&arguments(&[]), &SCREEN));
        assert_eq!(frame, "waiting for leafd, every 500 ms; q ends\n");
    }
}
