//! Shows leafd's state live until the operator has seen enough, on a terminal that it redraws in place,
//! or block after block. One thread asks leafd, so that keys and signals never wait for an answer.
//! `status --watch` and `top` say what to ask and what to show.

mod contact;
mod events;
mod mode;
mod poller;

use std::io::{self, Write};
use std::time::Duration;

pub(crate) use self::contact::{Contact, second};
use self::events::{Event, Events};
use self::mode::FullScreen;
use self::poller::Poller;
pub(crate) use self::poller::Reading;
use crate::exit::Failure;
use crate::output::Output;
use crate::screen::{self, Line, Screen};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEffect {
    Nothing,
    Redraw,
    End,
}

/// What is shown.
pub(crate) trait LiveView {
    /// What leafd answers.
    type Answer: Send + 'static;

    /// Notes what came of one question.
    ///
    /// # Errors
    /// The failure, if asking again cannot help.
    fn note(&mut self, reading: Reading<Self::Answer>) -> Result<(), Failure>;

    /// The operator typed a byte; a key may send several.
    fn key(&mut self, byte: u8) -> KeyEffect;

    /// All lines of a terminal that is redrawn: never more rows than it has.
    fn frame(&mut self, screen: &Screen) -> Vec<Line>;

    /// One block of many, for a pipe or a terminal that cannot be redrawn.
    fn block(&self, screen: Option<&Screen>) -> Vec<Line>;

    /// How it ended, once it has shown everything that it should.
    fn outcome(&self) -> Option<Result<(), Failure>>;
}

/// Asks after each `interval`, and shows the answers until a key, a signal, a closed pipe or the view
/// ends it.
///
/// # Errors
/// Those of the view and of `Output`.
pub(crate) fn run<W: Write, V: LiveView>(
    view: &mut V,
    interval: Duration,
    ask: impl FnMut() -> Result<V::Answer, Failure> + Send + 'static,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::Unavailable(format!("cannot watch leafd: {error}"));
    // Before there is a second thread: it inherits what is blocked.
    let mut events = Events::new().map_err(cannot)?;
    let redraws = Screen::of_stdout().is_some_and(|screen| screen.redraws);
    let poller = Poller::start(interval, ask).map_err(cannot)?;
    let enter = || redraws.then(FullScreen::enter).transpose().map_err(cannot);
    let mut full_screen = enter()?;
    loop {
        redraw(view, full_screen.is_some(), out)?;
        match events.wait(poller.bell(), full_screen.as_ref()).map_err(cannot)? {
            Event::End => return Ok(()),
            Event::Suspend => {
                drop(full_screen.take());
                events::suspend().map_err(cannot)?;
                full_screen = enter()?;
            }
            Event::Resized => {}
            Event::Key(byte) => {
                if view.key(byte) == KeyEffect::End {
                    return Ok(());
                }
            }
            Event::Answered => {
                for reading in poller.readings() {
                    view.note(reading)?;
                    let outcome = view.outcome();
                    // What the full screen showed goes away with it.
                    if outcome.is_some() {
                        drop(full_screen.take());
                    }
                    if full_screen.is_none() {
                        block(view, out)?;
                    }
                    if let Some(outcome) = outcome {
                        return outcome;
                    }
                }
            }
        }
    }
}

/// Draws over what the terminal shows, in one write, so that nothing flickers.
fn redraw<W: Write>(
    view: &mut impl LiveView,
    full_screen: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let Some(screen) = Screen::of_stdout().filter(|_| full_screen) else { return Ok(()) };
    let lines: Vec<_> = view.frame(&screen).iter().map(|line| screen.painted(line)).collect();
    out.text(mode::drawn(&lines))?;
    out.finish()
}

/// Prints a block below the one before.
fn block<W: Write>(view: &impl LiveView, out: &mut Output<W>) -> Result<(), Failure> {
    // A dumb terminal has a width, but no place to redraw in.
    let screen = Screen::of_stdout();
    screen::print(&view.block(screen.as_ref()), screen.as_ref(), out)?;
    out.finish()
}
