//! Asks the operator at the terminal to confirm, by typing a name, what cannot be undone.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::exit::Failure;
use crate::name;
use crate::output::harmless;

pub(crate) use crate::name::quoted;

/// Prints a question and returns the line that the operator types.
pub(crate) type Ask = fn(&str) -> io::Result<String>;

/// How to ask the operator; `None` if no one sits at a terminal.
pub(crate) fn terminal() -> Option<Ask> {
    // The question is not a result, so it goes to stderr.
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    is_terminal.then_some(|question| {
        let mut stderr = io::stderr();
        stderr.write_all(question.as_bytes())?;
        stderr.flush()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(line)
    })
}

/// Asks `question`, and succeeds only if the operator types exactly `expected`, the name of `what`.
///
/// # Errors
/// `Usage`, beginning with `refusal`, if the operator types anything else or the answer cannot be
/// read.
pub(crate) fn for_name(
    ask: impl FnOnce(&str) -> io::Result<String>,
    question: &str,
    expected: &str,
    what: &str,
    refusal: &str,
) -> Result<(), Failure> {
    let typed = ask(question)
        .map_err(|error| Failure::Usage(format!("{refusal}: cannot read the {what}: {error}")))?;
    let typed = typed.trim_end_matches(['\n', '\r']);
    if typed == expected {
        return Ok(());
    }
    let expected = harmless(expected);
    Err(Failure::Usage(format!("{refusal}: the {what} is {expected}, not {typed:?}")))
}

/// The beginning of a command line that reaches the same daemon.
pub(crate) fn leafctl(socket: Option<&Path>) -> String {
    match socket {
        Some(path) => format!("{} --socket {}", name::own(), quoted(path.display())),
        None => name::own().to_owned(),
    }
}
