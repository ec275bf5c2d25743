//! Questions to whoever sits at the terminal.

use std::io::{self, IsTerminal, Write};

/// Shows a text and gives the line that is typed next.
pub(crate) type Ask = fn(&str) -> io::Result<String>;

/// The way to ask, where somebody sits at a terminal.
pub(crate) fn terminal() -> Option<Ask> {
    // The question is no result, so it goes to stderr.
    let there = io::stdin().is_terminal() && io::stderr().is_terminal();
    there.then_some(|question| {
        let mut stderr = io::stderr();
        stderr.write_all(question.as_bytes())?;
        stderr.flush()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(line)
    })
}

/// A word that a shell takes as it is.
pub(crate) fn quoted(word: impl ToString) -> String {
    let word = word.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
