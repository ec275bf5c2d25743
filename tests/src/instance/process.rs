//! The process of a server: started, frozen, killed, stopped and restarted. A server may consist of
//! several processes, which all work in its data folder.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Home;
use crate::PATIENCE;
use crate::log::Log;
use crate::processes::is_stopped;

/// A server, running or not. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Mutex<Option<Child>>,
    home: Home,
}

impl Process {
    /// A server that does not run yet. Messages use the name.
    pub(crate) fn new(name: &'static str, home: Home) -> Self {
        Self { name, child: Mutex::new(None), home }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Starts the program in its folder, with a new log.
    pub(crate) fn spawn(&self, mut command: Command) {
        let mut process = self.child();
        assert!(process.is_none(), "{} runs already", self.name);
        let log = File::create(self.home.folder().join("log")).expect("the log");
        let command = self.home.settle(&mut command);
        let command = command.stdout(log.try_clone().expect("the log")).stderr(log);
        process.replace(command.spawn().unwrap_or_else(|error| {
            panic!("{}", self.home.cannot_start(command, &error));
        }));
    }

    /// Whether it was started and not killed or stopped since.
    pub(crate) fn is_running(&self) -> bool {
        self.child().is_some()
    }

    /// Whether it has ended by itself. If so, it can be started again.
    pub(crate) fn has_ended(&self) -> bool {
        let mut process = self.child();
        let child = process.as_mut();
        let ended = child.is_some_and(|child| child.try_wait().expect("wait").is_some());
        if ended {
            *process = None;
        }
        ended
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child().as_ref().expect("it runs").id()
    }

    pub(crate) fn log(&self) -> Log<'static> {
        Log::file(self.home.folder().join("log"))
    }

    /// Stops every process (SIGSTOP) until `thaw`.
    pub(crate) fn freeze(&self) {
        assert!(self.is_running(), "{} does not run", self.name);
        // A process may have forked before it stopped. A second look, when all have stopped, finds
        // the child.
        let mut looks = 0;
        self.until("stop", || {
            let running =
                self.home.processes().into_iter().filter(|pid| !is_stopped(&folder_of(*pid)));
            let sent = running.map(|pid| send(pid, Signal::SIGSTOP)).count();
            looks = if sent == 0 { looks + 1 } else { 0 };
            looks == 2
        });
    }

    /// Resumes every process.
    pub(crate) fn thaw(&self) {
        for pid in self.home.processes() {
            send(pid, Signal::SIGCONT);
        }
    }

    /// Whether it runs and is stopped.
    pub(crate) fn is_frozen(&self) -> bool {
        self.child().as_ref().is_some_and(|child| is_stopped(&folder_of(pid_of(child))))
    }

    /// Kills every process at once, as a power cut would.
    pub(crate) fn kill(&self) {
        let status = self.end().expect("it runs");
        assert_eq!(status.signal(), Some(9), "{}", self.log());
    }

    /// Asks the server to end, and waits for it.
    pub(crate) fn stop(&self, signal: Signal) {
        let mut process = self.child();
        let mut child = process.take().expect("it runs");
        send(pid_of(&child), signal);
        self.until("end", || child.try_wait().expect("wait").is_some());
        let status = child.wait().expect("wait");
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// Ends a server that is no longer needed. Killing it at once would orphan its children, and the
    /// system may be slow to reap those. So it is resumed and asked to end first.
    pub(crate) fn quit(&self, signal: Signal) {
        self.thaw();
        if let Some(child) = self.child().as_mut() {
            send(pid_of(child), signal);
            let began = Instant::now();
            while began.elapsed() < PATIENCE && child.try_wait().is_ok_and(|end| end.is_none()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.end();
    }

    fn end(&self) -> Option<ExitStatus> {
        let child = self.child().take();
        let status = child.map(|mut child| {
            // The parent first, so that it does not see its children end.
            let _ = child.kill();
            child.wait()
        });
        let began = Instant::now();
        loop {
            let processes = self.home.processes();
            if processes.is_empty() || began.elapsed() > PATIENCE {
                return status.and_then(Result::ok);
            }
            for pid in processes {
                send(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let began = Instant::now();
        while !done() {
            let name = self.name;
            assert!(began.elapsed() < PATIENCE, "{name} does not {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn send(pid: Pid, signal: Signal) {
    // The process may have ended by itself.
    let _ = kill(pid, signal);
}

fn folder_of(pid: Pid) -> PathBuf {
    format!("/proc/{pid}").into()
}
