//! The command and everything that it started: starting it, signals to it, and whether all has ended.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::action::Ended;
use super::cgroup::CommandGroup;
use super::tree::{self, ProcessName};

/// How often the processes are listed for one SIGKILL, while new ones appear.
const PASSES: usize = 8;

/// The processes below leafctl.
#[derive(Debug)]
pub(super) struct Children {
    group: CommandGroup,
    /// Children that leafctl had before, from the program that became leafctl.
    spared: BTreeSet<ProcessName>,
    /// Before that, to have no children means nothing.
    is_started: bool,
    /// The command, until it has been waited for: until then, no other process has its number.
    command: Option<Pid>,
    /// Whether the system refused to signal one of them.
    is_refused: Cell<bool>,
}

/// News of the children.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The command has stopped, as for Ctrl-Z.
    CommandStopped,
    /// The command goes on.
    CommandContinued,
    CommandEnded(Ended),
    /// None is left.
    AllEnded,
}

impl Children {
    /// From now on, whatever the command starts is below leafctl, even if its parent ends.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn new(group: CommandGroup) -> io::Result<Self> {
        set_child_subreaper(true)?;
        let spared = tree::descendants(&BTreeSet::new());
        Ok(Self { group, spared, is_started: false, command: None, is_refused: Cell::new(false) })
    }

    pub(super) fn group(&self) -> &CommandGroup {
        &self.group
    }

    /// Starts the command, by its stage.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(&mut self, mut stage: Command) -> io::Result<()> {
        let child = stage.spawn()?;
        self.is_started = true;
        self.command = i32::try_from(child.id()).ok().map(Pid::from_raw);
        Ok(())
    }

    /// Whether the command is in leafctl's process group, to which the terminal sends its signals.
    pub(super) fn is_command_in_group(&self) -> bool {
        self.command.is_some_and(|pid| getpgid(Some(pid)) == Ok(getpgrp()))
    }

    pub(super) fn has_command(&self) -> bool {
        self.command.is_some()
    }

    /// Sends a signal to the command.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.command {
            self.note(kill(pid, signal));
        }
    }

    /// Asks all that are left to end.
    pub(super) fn end(&self) {
        for process in self.all() {
            self.note(tree::signal(process, Signal::SIGTERM));
        }
    }

    /// Kills all that are left.
    pub(super) fn kill(&self) {
        if let Some(made) = self.group.made() {
            made.kill();
        }
        let mut killed = BTreeSet::new();
        for _ in 0..PASSES {
            let found: Vec<_> = self.all().difference(&killed).copied().collect();
            if found.is_empty() {
                return;
            }
            for process in found {
                self.note(tree::signal(process, Signal::SIGKILL));
                killed.insert(process);
            }
        }
    }

    /// Whether the system has refused to signal one of them since this was last asked.
    pub(super) fn take_refused(&self) -> bool {
        self.is_refused.take()
    }

    /// The next news, without waiting for it.
    pub(super) fn next(&mut self) -> Option<News> {
        let stops = WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL | stops;
        loop {
            let ended = match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) if Some(pid) == self.command => {
                    Ended::Exited(code)
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == self.command => {
                    Ended::Killed(signal)
                }
                Ok(WaitStatus::Stopped(pid, _)) if Some(pid) == self.command => {
                    return Some(News::CommandStopped);
                }
                Ok(WaitStatus::Continued(pid)) if Some(pid) == self.command => {
                    return Some(News::CommandContinued);
                }
                Ok(WaitStatus::StillAlive) => {
                    return (!self.spared.is_empty() && self.is_over()).then_some(News::AllEnded);
                }
                Err(Errno::ECHILD) => return self.is_over().then_some(News::AllEnded),
                // A real-time signal, which has no name here, ended a process.
                Err(Errno::EINVAL) => match self.command_killed_by_unnamed() {
                    true => Ended::Exited(255),
                    false => continue,
                },
                Err(Errno::EINTR) | Ok(_) => continue,
                Err(_) => return None,
            };
            self.command = None;
            return Some(News::CommandEnded(ended));
        }
    }

    /// Whether the command is gone although nobody waited for it by name.
    fn command_killed_by_unnamed(&self) -> bool {
        self.command.is_some_and(|pid| kill(pid, None) == Err(Errno::ESRCH))
    }

    fn is_over(&self) -> bool {
        self.is_started
            && self.command.is_none()
            && self.group.made().is_none_or(|made| made.is_empty())
            && (self.spared.is_empty() || tree::descendants(&self.spared).is_empty())
    }

    fn all(&self) -> BTreeSet<ProcessName> {
        let mut all = tree::descendants(&self.spared);
        if let Some(made) = self.group.made() {
            all.extend(tree::named(&made.pids()));
        }
        all
    }

    fn note(&self, sent: Result<(), Errno>) {
        if !matches!(sent, Ok(()) | Err(Errno::ESRCH)) {
            self.is_refused.set(true);
        }
    }
}
