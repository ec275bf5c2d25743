//! `leafctl status --watch`: the status again and again, until the operator has seen enough. It
//! outlives restarts of leafd. One thread asks, so that keys and signals never wait for an answer.

mod events;
mod frame;
mod mode;
mod poller;

use std::io::{self, Write};
use std::time::Duration;

use leafd::cli::leafctl::{DaemonArgs, StatusArgs};

use self::events::{Event, Events};
use self::frame::History;
use self::mode::FullScreen;
use self::poller::{Poller, Reading};
use super::print;
use crate::exit::Failure;
use crate::output::Output;
use crate::screen::Screen;

/// Shows the status after each `interval`, until the operator, a signal or a closed pipe ends it.
///
/// # Errors
/// `Output`, and answers that no repetition changes, such as a refusal.
pub(super) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &StatusArgs,
    interval: Duration,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::Unavailable(format!("cannot watch leafd: {error}"));
    // Before there is a second thread: it inherits what is blocked.
    let mut events = Events::new().map_err(cannot)?;
    let screen = Screen::of_stdout();
    let redraws = screen.is_some_and(|screen| screen.redraws);
    // Where it redraws, more lines than the terminal has would scroll.
    let args = StatusArgs { all: args.all && !redraws, ..args.clone() };
    let most = super::most(&args, screen.as_ref());
    let poller = Poller::start(daemon, interval, most).map_err(cannot)?;
    let mut history = History::new(interval);
    let mut full_screen = redraws.then(FullScreen::enter);
    loop {
        match events.wait(poller.bell(), full_screen.as_ref()).map_err(cannot)? {
            Event::End => return Ok(()),
            Event::Suspend => {
                drop(full_screen.take());
                events::suspend().map_err(cannot)?;
                full_screen = redraws.then(FullScreen::enter);
                redraw(&history, &args, full_screen.is_some(), out)?;
            }
            Event::Resized => redraw(&history, &args, full_screen.is_some(), out)?,
            Event::Answered => {
                for Reading { at_ms, result } in poller.readings() {
                    history.note(at_ms, result)?;
                    if full_screen.is_none() {
                        block(&history, &args, out)?;
                    }
                }
                redraw(&history, &args, full_screen.is_some(), out)?;
            }
        }
    }
}

/// Draws over what the terminal shows, in one write, so that nothing flickers.
fn redraw<W: Write>(
    history: &History,
    args: &StatusArgs,
    full_screen: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let Some(screen) = Screen::of_stdout().filter(|_| full_screen) else { return Ok(()) };
    let lines: Vec<_> =
        history.frame(args, &screen).iter().map(|line| screen.painted(line)).collect();
    out.text(mode::drawn(&lines))?;
    out.finish()
}

/// Prints a block below the one before.
fn block<W: Write>(
    history: &History,
    args: &StatusArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    // A dumb terminal has a width, but no place to redraw in.
    let screen = Screen::of_stdout();
    print(&history.block(args, screen.as_ref()), screen.as_ref(), out)?;
    out.finish()
}
