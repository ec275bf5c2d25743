//! `leafctl run`: lends a worker ID to a command that makes snowflake IDs with another library. The
//! core, [`borrowing`], decides; this file waits for events, passes them on, and does what the core
//! wants. Nothing that can hang is done here while the command runs: calls to leafd and messages have
//! threads of their own.

mod action;
mod alive;
mod borrowing;
mod cgroup;
mod cgroup_path;
mod children;
mod hold;
mod lender;
mod messages;
mod moment;
mod pause;
mod returning;
mod signals;
pub(crate) mod stage;
mod tree;
mod unique;
mod waiting;
mod worker_file;

#[cfg(test)]
mod borrowing_histories;
#[cfg(test)]
mod borrowing_tests;
#[cfg(test)]
mod hold_tests;

use std::io;

use leafd::cli::leafctl::{DaemonArgs, RunArgs};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use self::action::{Action, Outcome};
use self::borrowing::Borrowing;
use self::cgroup::CommandGroup;
use self::children::{Children, News};
use self::lender::{Answer, Borrower, Lender};
use self::messages::Messages;
use self::moment::Moment;
use self::signals::{JobControl, Signals};
use self::waiting::Terms;
use self::worker_file::WorkerFile;
use crate::exit::{self, Failure};

/// Borrows a worker ID, runs the command with it, and gives it back.
///
/// # Errors
/// `Ended` with the command's exit status, unless that is 0; `Unavailable` or leafd's refusal if
/// there is no worker ID; `Lost` if it could not be held; `Unstarted`.
pub(crate) fn run(daemon: &DaemonArgs, args: &RunArgs) -> Result<(), Failure> {
    let outcome = Runner::prepare(daemon, args)
        .map_err(|error| Failure::Unstarted(format!("cannot run a command here: {error}")))?
        .run();
    match outcome {
        Outcome::Status(0) => Ok(()),
        Outcome::Status(status) => Err(Failure::Ended(status)),
        Outcome::Unavailable(text) => Err(Failure::Unavailable(text)),
        Outcome::Refused(error) => Err(error.into()),
        Outcome::Lost(text) => Err(Failure::Lost(text)),
        Outcome::Unstarted(text) => Err(Failure::Unstarted(text)),
    }
}

/// Everything that the main thread holds.
struct Runner<'a> {
    args: &'a RunArgs,
    /// A part of the names that leafctl gives.
    unique: String,
    signals: Signals,
    jobs: JobControl,
    children: Children,
    lender: Lender,
    messages: Messages,
    file: Option<WorkerFile>,
    course: Borrowing,
    has_told_refusal: bool,
}

impl<'a> Runner<'a> {
    fn prepare(daemon: &DaemonArgs, args: &'a RunArgs) -> io::Result<Self> {
        // A service manager waits for the exit status.
        exit::do_not_wait_for_readers();
        // First, because threads inherit what is blocked.
        let signals = Signals::take_over()?;
        let unique = format!("{}-{}", std::process::id(), unique::random());
        let name = format!("leafctl-run-{unique}");
        let children = Children::new(CommandGroup::make(&name, stage::can_join))?;
        let cgroup = children.group().name();
        // A secret: whoever knows it can return the worker ID. Everybody can read the name of a cgroup.
        let borrower = Borrower { pool: args.pool.clone(), name: unique::random(), cgroup };
        let terms = Terms {
            pool: args.pool.clone(),
            wait_ms: ms(args.wait.as_millis()),
            grace_ms: ms(args.grace.as_millis()),
        };
        Ok(Self {
            args,
            unique,
            signals,
            jobs: JobControl::default(),
            children,
            lender: Lender::start(daemon, borrower)?,
            messages: Messages::start(),
            file: None,
            course: Borrowing::new(terms, Moment::now()),
            has_told_refusal: false,
        })
    }

    fn run(mut self) -> Outcome {
        let outcome = loop {
            // Time comes first: an answer that was read after the deadline is too late.
            self.course.tick(Moment::now());
            if let Some(outcome) = self.act() {
                break outcome;
            }
            self.hear_signals();
            self.hear_children();
            if self.jobs.stops(self.children.has_command(), Moment::now()) {
                // Like the command, so that the shell takes the terminal back. It returns once the
                // shell continues both.
                let _ = raise(Signal::SIGSTOP);
                continue;
            }
            self.hear_leafd();
            if let Some(outcome) = self.act() {
                break outcome;
            }
            self.sleep();
        };
        self.messages.finish();
        outcome
    }

    fn hear_signals(&mut self) {
        while let Some(heard) = self.signals.next() {
            let now = Moment::now();
            let is_alone = !self.children.has_command();
            let is_shared = is_alone || self.children.is_command_in_group();
            if self.jobs.passes_on(heard, is_shared, now) || is_alone {
                self.course.signalled(now, heard.signal);
            }
        }
    }

    fn hear_children(&mut self) {
        while let Some(news) = self.children.next() {
            let now = Moment::now();
            match news {
                News::CommandStopped => self.jobs.command_stopped(true),
                News::CommandContinued => self.jobs.command_stopped(false),
                News::CommandEnded(ended) => self.course.command_ended(now, ended),
                News::AllEnded => {
                    // Before the worker ID can be another's.
                    self.file = None;
                    self.course.all_ended(now);
                    return;
                }
            }
        }
    }

    fn hear_leafd(&mut self) {
        while let Some(answer) = self.lender.next() {
            let now = Moment::now();
            match answer {
                Answer::Loan { sent_boot_ms, result } => {
                    self.course.answered(now, sent_boot_ms, result);
                }
                Answer::Returned(result) => self.course.returned(now, result),
            }
        }
    }

    /// Does what the core wants, and returns how to end.
    fn act(&mut self) -> Option<Outcome> {
        while let Some(action) = self.course.next_action() {
            match action {
                Action::Ask(known) => self.lender.borrow(known),
                Action::Start { worker, bits } => {
                    if let Err(reason) = self.start(worker, bits) {
                        self.file = None;
                        self.course.not_started(Moment::now(), reason);
                    }
                }
                Action::Signal(signal) => self.children.signal(signal),
                Action::EndAll => self.children.end(),
                Action::KillAll => self.children.kill(),
                Action::Return { ceiling_unix_ms, announces } => {
                    self.lender.give_back(ceiling_unix_ms, announces);
                }
                Action::Say(text) => self.messages.say(&text),
                Action::Finish(outcome) => return Some(outcome),
            }
        }
        if self.children.take_refused() && !self.has_told_refusal {
            self.has_told_refusal = true;
            self.messages.say(
                "the system does not let leafctl signal a process of the command; leafctl keeps the \
                 worker ID until all have ended",
            );
        }
        None
    }

    fn start(&mut self, worker: u64, bits: u32) -> Result<(), String> {
        if let Some(path) = &self.args.worker_file {
            let file = WorkerFile::write(path, worker, &self.unique);
            let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            self.file = Some(file);
        }
        let cgroup = self.children.group().made();
        let unblocked = self.signals.blocked();
        let mut stage = stage::command_line(cgroup, &unblocked, &self.args.command);
        if let Some(name) = &self.args.worker_env {
            stage.env(name, worker.to_string());
        }
        if let Some(name) = &self.args.bits_env {
            stage.env(name, bits.to_string());
        }
        self.children.start(stage).map_err(|error| format!("cannot start the command: {error}"))
    }

    /// Waits until something happens or is due.
    fn sleep(&self) {
        let ms = self.course.sleep_ms(Moment::now());
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::ZERO);
        let mut descriptors = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.lender.as_fd(), PollFlags::POLLIN),
        ];
        // A failure only means an earlier look.
        let _ = poll(&mut descriptors, timeout);
    }
}

fn ms(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX)
}
