//! `leafctl top`: leafd's state live: tags by rate, their ranges as bars, rates as sparklines, and what
//! fails. On a terminal it redraws in place; elsewhere it prints block after block.

mod glyphs;
mod header;
mod keys;
mod known;
mod rates;
mod reader;
mod rows;
mod view;

#[cfg(test)]
mod tests;

use std::env;
use std::io::Write;
use std::sync::Arc;

use leafd::cli::leafctl::{DaemonArgs, TopArgs};

use self::reader::{Shown, TagReader};
use self::view::TopView;
use crate::exit::Failure;
use crate::output::Output;
use crate::screen::Screen;
use crate::{connect, live};

/// Shows leafd's state after each interval, until the operator, a signal, a closed pipe or `--count`
/// ends it.
///
/// # Errors
/// `Output`, answers that no repetition changes, such as a refusal, and with `--count` a last round
/// without an answer.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &TopArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| env::var(name).ok());
    let utf8 = glyphs::is_utf8(locale.iter().map(Option::as_deref));
    let redraws = Screen::of_stdout().is_some_and(|screen| screen.redraws);
    let shown = Shown::default();
    // What prints every tag has to read every tag.
    let mut reader = TagReader::new(Arc::clone(&shown), !redraws);
    let mut view = TopView::new(args, utf8, shown);
    let daemon = daemon.clone();
    let ask = move || reader.read(&mut connect::prompt(&daemon)?);
    live::run(&mut view, args.interval, ask, out)
}
