//! `leafctl status --watch`: the status again and again, until the operator has seen enough. It
//! outlives restarts of leafd.

mod frame;

use std::io::Write;
use std::time::Duration;

use leafd::cli::leafctl::{DaemonArgs, StatusArgs};

use self::frame::History;
use super::gather::{self, Snapshot};
use crate::connect;
use crate::exit::Failure;
use crate::live::{self, KeyEffect, LiveView, Reading};
use crate::output::Output;
use crate::screen::{Line, Screen};

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
    let screen = Screen::of_stdout();
    let redraws = screen.is_some_and(|screen| screen.redraws);
    // Where it redraws, more lines than the terminal has would scroll.
    let args = StatusArgs { all: args.all && !redraws, ..args.clone() };
    let most = super::most(&args, screen.as_ref());
    let daemon = daemon.clone();
    let ask = move || gather::read(&mut connect::prompt(&daemon)?, most);
    live::run(&mut StatusWatch { args, history: History::new(interval) }, interval, ask, out)
}

struct StatusWatch {
    args: StatusArgs,
    history: History,
}

impl LiveView for StatusWatch {
    type Answer = Snapshot;

    fn note(&mut self, reading: Reading<Snapshot>) -> Result<(), Failure> {
        self.history.note(reading)
    }

    fn key(&mut self, byte: u8) -> KeyEffect {
        if matches!(byte, b'q' | b'Q') { KeyEffect::End } else { KeyEffect::Nothing }
    }

    fn frame(&mut self, screen: &Screen) -> Vec<Line> {
        self.history.frame(&self.args, screen)
    }

    fn block(&self, screen: Option<&Screen>) -> Vec<Line> {
        self.history.block(&self.args, screen)
    }

    fn outcome(&self) -> Option<Result<(), Failure>> {
        None
    }
}
