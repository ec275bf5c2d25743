//! The stage between leafctl and the command: a process of its own that prepares itself and then
//! becomes the command. leafctl prepares nothing between fork and exec, where only unsafe code could.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::cgroup::MadeCgroup;
use super::cgroup_path::of_process;
use super::signals::unblock;
use crate::exit::write_in_time;

/// The first argument that makes this program a stage.
const WORD: &str = "__run-stage";
/// The name under which both programs are leafctl.
const LEAFCTL: &str = "leafctl";

/// leafctl could not start the command.
const UNSTARTED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// A command line that starts a stage, which becomes `command`; with an empty `command`, it only
/// finds out whether it can join the cgroup.
pub(super) fn command_line(
    cgroup: Option<&MadeCgroup>,
    unblocked: &str,
    command: &[OsString],
) -> Command {
    let mut stage = Command::new("/proc/self/exe");
    stage.arg0(LEAFCTL).arg(WORD).arg(Pid::this().to_string());
    match cgroup {
        Some(made) => stage.arg(made.directory()).arg(made.path()),
        None => stage.arg("").arg(""),
    };
    stage.arg(unblocked).args(command);
    stage
}

/// Whether a process of this user can join `cgroup`.
pub(super) fn can_join(cgroup: &MadeCgroup) -> bool {
    let mut probe = command_line(Some(cgroup), "", &[]);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Is the stage, if the command line says so.
pub(crate) fn entered(words: &mut impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut words = words.skip(1);
    if words.next()? != WORD {
        return None;
    }
    Some(become_command(&mut words))
}

fn become_command(words: &mut impl Iterator<Item = OsString>) -> ExitCode {
    let mut text = || words.next().unwrap_or_default();
    let (parent, directory, path, unblocked) = (text(), text(), text(), text());
    if let Err(error) = prepare(&parent, Path::new(&directory), &path, &unblocked) {
        return fail(UNSTARTED, &format!("cannot start the command: {error}"));
    }
    let Some(program) = words.next() else { return ExitCode::SUCCESS };
    let error = Command::new(&program).args(words).exec();
    let program = program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        fail(NOT_FOUND, &format!("{program}: there is no such command, or no interpreter for it"))
    } else {
        fail(NOT_EXECUTABLE, &format!("{program}: cannot be executed: {error}"))
    }
}

fn prepare(
    parent: &OsString,
    directory: &Path,
    path: &OsString,
    unblocked: &OsString,
) -> io::Result<()> {
    if !path.is_empty() {
        std::fs::write(directory.join("cgroup.procs"), "0")
            .map_err(|error| context("cannot join its control group", &error))?;
        // leafd looks for the processes under this name, so it has to be the right one.
        let text = std::fs::read_to_string("/proc/self/cgroup")?;
        if of_process(&text) != path.to_str() {
            return Err(io::Error::other("its control group has another name"));
        }
    }
    set_pdeathsig(Signal::SIGKILL)?;
    // It may have ended before this one asked to end with it.
    if *parent != *Pid::parent().to_string() {
        return Err(io::Error::other("leafctl has ended"));
    }
    unblock(&unblocked.to_string_lossy())
}

fn context(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn fail(status: u8, text: &str) -> ExitCode {
    write_in_time(format!("leafctl run: {text}\n"));
    ExitCode::from(status)
}
