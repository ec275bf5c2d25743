//! What goes to stdout: one locked buffer, and a place to say that writing failed.

use std::fmt;
use std::io::{BufWriter, Write};

use leafd::stdout::{Stdout, stdout};
use serde::Serialize;

use crate::exit::Failure;

/// Results on their way out. What is written appears at [`Output::finish`] at the latest.
pub(crate) struct Output<W: Write>(BufWriter<W>);

impl Output<Stdout> {
    /// Stdout, locked.
    pub(crate) fn stdout() -> Self {
        Self::to(stdout())
    }
}

impl<W: Write> Output<W> {
    /// A writer of the caller's.
    pub(crate) fn to(writer: W) -> Self {
        Self(BufWriter::with_capacity(64 * 1024, writer))
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(Failure::Output)
    }

    /// Writes `value` as JSON on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, value).map_err(|error| Failure::Output(error.into()))?;
        self.line("")
    }

    /// Sends off what is buffered.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::Output)
    }
}

/// Text from a daemon or its store, with control characters shown rather than obeyed by the
/// terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let (escaped, plain) =
                if c.is_control() { (Some(c.escape_default()), None) } else { (None, Some(c)) };
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Writes a number with its thousands apart: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_rather_than_sent() {
        assert_eq!(harmless("a\x1b[2Jb\nü 订单"), "a\\u{1b}[2Jb\\nü 订单");
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_line_is_out_after_finish() {
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        out.line(7).unwrap();
        out.json(&[1, 2]).unwrap();
        out.finish().unwrap();
        drop(out);
        assert_eq!(bytes, b"7\n[1,2]\n");
    }
}
