//! Writes results to stdout, through one locked buffer, and reports when writing fails.

use std::fmt;
use std::io::{BufWriter, Write};

use leafd::stdout::{Stdout, stdout};
use serde::Serialize;

use crate::exit::Failure;

/// A buffered writer of results. Everything is written by [`Output::finish`] at the latest.
pub(crate) struct Output<W: Write>(BufWriter<W>);

impl Output<Stdout> {
    pub(crate) fn stdout() -> Self {
        Self::to(stdout())
    }
}

impl<W: Write> Output<W> {
    pub(crate) fn to(writer: W) -> Self {
        Self(BufWriter::with_capacity(64 * 1024, writer))
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(Failure::Output)
    }

    /// Writes a text as it is.
    pub(crate) fn text(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        write!(self.0, "{text}").map_err(Failure::Output)
    }

    /// Writes `value` as JSON on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, value).map_err(|error| Failure::Output(error.into()))?;
        self.line("")
    }

    /// Flushes the buffer.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::Output)
    }
}

/// Escapes the control characters of text from a daemon or its store, so that the terminal shows
/// them instead of obeying them.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let (escaped, plain) =
                if c.is_control() { (Some(c.escape_default()), None) } else { (None, Some(c)) };
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Formats a number with commas between thousands: `1,234,567`.
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
pub(crate) mod tests {
    use super::*;

    /// Everything that `print` writes.
    pub(crate) fn printed(
        print: impl FnOnce(&mut Output<&mut Vec<u8>>) -> Result<(), Failure>,
    ) -> String {
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        print(&mut out).unwrap();
        out.finish().unwrap();
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(harmless("a\x1b[2Jb\nü 订单"), "a\\u{1b}[2Jb\\nü 订单");
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn finish_writes_every_line() {
        let text = printed(|out| {
            out.line(7)?;
            out.json(&[1, 2])
        });
        assert_eq!(text, "7\n[1,2]\n");
    }
}
