//! The report: what matters first, in as many rows as the terminal has.

use std::io::{IsTerminal as _, Write, stdout};
use std::path::Path;

use leafd::doctor::{Finding, Level};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Output, harmless};

/// How wide a report is where there is no terminal.
const COLUMNS: usize = 80;

/// The narrowest and the widest text: long lines are hard to read.
const NARROWEST: usize = 40;
const WIDEST: usize = 100;

/// Where a finding's text begins.
const INDENT: usize = 6;

/// A blank at which no line ends.
const NO_BREAK: char = '\u{a0}';

/// Rows that are not findings: the heading, the summary, and the shell's prompt.
const OTHER_ROWS: usize = 3;

/// Where the report goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    columns: usize,
    /// None: there is no end of it.
    rows: Option<usize>,
}

impl Window {
    /// The terminal that is standard output, or something without an end.
    pub(super) fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self { columns: COLUMNS, rows: None };
        }
        match rustix::termios::tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Self {
                columns: usize::from(size.ws_col).clamp(NARROWEST, WIDEST),
                rows: Some(size.ws_row.into()),
            },
            _ => Self { columns: COLUMNS, rows: None },
        }
    }
}

/// What was found.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// Where the configuration comes from.
    pub(super) source: &'a str,
    pub(super) socket: &'a Path,
    /// The worst first.
    pub(super) findings: &'a [Finding],
}

#[derive(Serialize)]
struct FindingView<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    doc: &'static str,
}

#[derive(Serialize)]
struct ReportView<'a> {
    configuration: &'a str,
    socket: String,
    bad: usize,
    warn: usize,
    note: usize,
    unknown: usize,
    ok: usize,
    findings: Vec<FindingView<'a>>,
}

impl Report<'_> {
    /// How many findings have this level.
    pub(super) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Prints one JSON object with all findings.
    pub(super) fn print_json<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        let view = |finding| FindingView { finding, doc: finding.check.page() };
        out.json(&ReportView {
            configuration: self.source,
            socket: self.socket.display().to_string(),
            bad: self.count(Level::Bad),
            warn: self.count(Level::Warn),
            note: self.count(Level::Note),
            unknown: self.count(Level::Unknown),
            ok: self.count(Level::Ok),
            findings: self.findings.iter().map(view).collect(),
        })
    }

    /// Prints the findings, those that are fine only with `all`. If the window has too few rows, the
    /// last ones are only named.
    pub(super) fn print<W: Write>(
        &self,
        window: Window,
        all: bool,
        out: &mut Output<W>,
    ) -> Result<(), Failure> {
        let shown: Vec<&Finding> =
            self.findings.iter().filter(|finding| all || finding.level != Level::Ok).collect();
        let heading = format!("leafd at {}; configuration: {}", self.socket.display(), self.source);
        for line in wrapped(&harmless(&heading), window.columns) {
            out.line(line)?;
        }
        let texts: Vec<_> = shown.iter().map(|finding| lines(finding, window.columns)).collect();
        let rows = window.rows.filter(|_| !all).map(|rows| rows.saturating_sub(OTHER_ROWS));
        let whole = shown_whole(&texts.iter().map(Vec::len).collect::<Vec<_>>(), rows);
        for (number, text) in texts.iter().enumerate() {
            let rows = if number < whole { text.len() } else { 1 };
            for line in text.iter().take(rows) {
                out.line(line)?;
            }
        }
        out.line(self.summary(whole < texts.len(), all))
    }

    fn summary(&self, is_cut: bool, all: bool) -> String {
        let named = |level, one: &str, many: &str| match self.count(level) {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let parts: Vec<_> = [
            named(Level::Bad, "bad", "bad"),
            named(Level::Warn, "warning", "warnings"),
            named(Level::Note, "note", "notes"),
            named(Level::Unknown, "not checked", "not checked"),
            named(Level::Ok, "fine", "fine"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let more = match (is_cut, all) {
            (true, _) => "; --all explains each",
            (false, true) => "",
            (false, false) => "; --all shows those too",
        };
        format!("{}{more}", parts.join(", "))
    }
}

/// How many findings can be shown as a whole, if the others take a row each.
fn shown_whole(lengths: &[usize], rows: Option<usize>) -> usize {
    let Some(mut left) = rows.map(|rows| rows.saturating_sub(lengths.len())) else {
        return lengths.len();
    };
    let fits = |length: &&usize| {
        let more = length.saturating_sub(1);
        let fits = more <= left;
        left = left.saturating_sub(more);
        fits
    };
    lengths.iter().take_while(fits).count()
}

/// A finding in lines of at most `columns` characters. The first one says it all.
fn lines(finding: &Finding, columns: usize) -> Vec<String> {
    let Finding { check, level, title, detail, remedy } = finding;
    let width = columns.saturating_sub(INDENT);
    let mut lines = Vec::new();
    let mut add = |first: &str, text: &str| {
        for (number, line) in wrapped(&harmless(text), width).into_iter().enumerate() {
            let before = if number == 0 { first } else { "" };
            lines.push(format!("{before:<INDENT$}{}", line.replace(NO_BREAK, " ")));
        }
    };
    add(level.word(), title);
    detail.lines().for_each(|line| add("", line));
    if *level != Level::Ok {
        let see = format!("[{}:{NO_BREAK}{}]", check.name(), check.page());
        add("   =>", &format!("{remedy} {see}"));
    }
    lines
}

/// Breaks a text into lines of at most `columns` characters, between words if possible.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + rest.len() > columns {
            lines.push(String::new());
            used = 0;
        }
        while !rest.is_empty() {
            let space = usize::from(used > 0);
            let taken: Vec<char> = rest.drain(..rest.len().min(columns - used - space)).collect();
            if let Some(line) = lines.last_mut() {
                line.extend(std::iter::repeat_n(' ', space));
                line.extend(&taken);
            }
            used += space + taken.len();
            if !rest.is_empty() {
                lines.push(String::new());
                used = 0;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::printed;
    use leafd::doctor::Check;

    fn finding(level: Level, title: &str) -> Finding {
        Finding {
            check: Check::Disk,
            level,
            title: title.to_owned(),
            detail: "Words. ".repeat(30),
            remedy: "Do it.".to_owned(),
        }
    }

    fn shown(findings: &[Finding], rows: Option<usize>, all: bool) -> String {
        let report = Report { source: "defaults", socket: Path::new("/s"), findings };
        printed(|out| report.print(Window { columns: 80, rows }, all, out))
    }

    #[test]
    fn a_text_is_broken_between_words_and_long_words_anywhere() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one 1234567890 x", 7), ["one", "1234567", "890 x"]);
        assert_eq!(wrapped("", 7), [""]);
    }

    #[test]
    fn what_is_fine_is_shown_with_all_only() {
        let findings = [finding(Level::Warn, "worn"), finding(Level::Ok, "good")];
        let text = shown(&findings, None, false);
        assert!(text.contains("WARN  worn\n") && !text.contains("good"), "{text}");
        assert!(text.ends_with("1 warning, 1 fine; --all shows those too\n"), "{text}");
        assert!(text.contains("   => Do it. [disk: docs/operations/capacity.md#"), "{text}");
        let text = shown(&findings, None, true);
        assert!(text.contains("ok    good\n") && text.ends_with("1 warning, 1 fine\n"), "{text}");
    }

    #[test]
    fn a_window_shows_the_worst_as_a_whole_and_names_the_others() {
        let findings: Vec<_> = (0..9).map(|_| finding(Level::Bad, "sick")).collect();
        let text = shown(&findings, Some(24), false);
        assert!(text.lines().count() <= 23, "{text}");
        assert_eq!(text.matches("BAD   sick").count(), 9, "{text}");
        assert!(
            text.matches("=>").count() >= 2 && text.ends_with("--all explains each\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn control_characters_of_a_store_do_not_reach_the_terminal() {
        let mut evil = finding(Level::Bad, "x\x1b[2J");
        evil.detail = "y\x07".to_owned();
        let text = shown(&[evil], None, false);
        assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
    }
}
