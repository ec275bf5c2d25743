//! The terminal that leafctl writes to, if it is one: its size, and what it can do.

use std::env;
use std::io::{IsTerminal, Write, stdout};

use crate::exit::Failure;
use crate::output::Output;
use crate::text;

/// The size to assume where a terminal does not know its own, such as a serial console.
const USUAL: (usize, usize) = (80, 24);

/// A terminal as standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// Whether the user wants colours.
    pub(crate) colours: bool,
    /// Whether the terminal can move its cursor.
    pub(crate) redraws: bool,
}

/// Why a line may have a colour. The words say it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Warning,
    Failure,
}

/// A line of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Line {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

impl Screen {
    /// The terminal that is standard output; none for a pipe or a file.
    pub(crate) fn of_stdout() -> Option<Self> {
        stdout().is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(stdout()).ok();
            let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
            let (columns, rows) =
                size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL);
            let redraws = env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
            // https://no-color.org: set to anything but nothing.
            let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            Self { columns, rows, colours: redraws && !no_color, redraws }
        })
    }

    /// The line as this terminal shows it in colour.
    pub(crate) fn painted(&self, line: &Line) -> String {
        let colour = match line.tone {
            Tone::Plain => return line.text.clone(),
            _ if !self.colours => return line.text.clone(),
            Tone::Heading => "1",
            Tone::Warning => "33",
            Tone::Failure => "31",
        };
        format!("\x1b[{colour}m{}\x1b[0m", line.text)
    }

    /// How many rows a text takes, wrapped by the terminal if it is too long.
    pub(crate) fn rows_of(&self, text: &str) -> usize {
        text::width(text).div_ceil(self.columns).max(1)
    }
}

/// Prints lines one below the other, painted if `screen` is what they go to.
///
/// # Errors
/// `Output`.
pub(crate) fn print<W: Write>(
    lines: &[Line],
    screen: Option<&Screen>,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    for line in lines {
        match screen {
            Some(screen) => out.line(screen.painted(line))?,
            None => out.line(&line.text)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_with_a_reason_gets_a_colour_and_only_where_colours_are_wanted() {
        let screen = Screen { columns: 80, rows: 24, colours: true, redraws: true };
        let failed = Line { text: "failed".to_owned(), tone: Tone::Failure };
        assert_eq!(screen.painted(&failed), "\x1b[31mfailed\x1b[0m");
        assert_eq!(screen.painted(&Line::plain("fine")), "fine");
        assert_eq!(Screen { colours: false, ..screen }.painted(&failed), "failed");
    }

    #[test]
    fn a_line_takes_as_many_rows_as_its_columns_need() {
        let screen = Screen { columns: 4, rows: 24, colours: false, redraws: true };
        let rows = ["", "abcd", "abcde", "订单", "订单x"].map(|text| screen.rows_of(text));
        assert_eq!(rows, [1, 1, 2, 1, 2]);
    }
}
