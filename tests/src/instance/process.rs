//! A server as a process in its home: started, frozen, killed, stopped, and started again. A server
//! may be several processes, which all work in its data folder.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Home, PATIENCE};
use crate::log::Log;

/// A server, running or not. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Mutex<Option<Child>>,
    home: Home,
}

impl Process {
    /// One that does not run yet; the name is for messages.
    pub(crate) fn new(name: &'static str, home: Home) -> Self {
        Self { name, child: Mutex::new(None), home }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Starts the program in its home, with a new log.
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

    /// It was started, and nobody has killed or stopped it.
    pub(crate) fn is_running(&self) -> bool {
        self.child().is_some()
    }

    /// It has ended by itself, and may be started again.
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

    /// Stops every process, as it is, until `thaw`.
    pub(crate) fn freeze(&self) {
        assert!(self.is_running(), "{} does not run", self.name);
        // A process may have made another one before it stopped: whoever looks once more, when all
        // stand still, finds it.
        let mut looks = 0;
        self.until("stop", || {
            let running = self.home.processes().into_iter().filter(|pid| !is_stopped(*pid));
            let sent = running.map(|pid| send(pid, Signal::SIGSTOP)).count();
            looks = if sent == 0 { looks + 1 } else { 0 };
            looks == 2
        });
    }

    /// Lets every process go on.
    pub(crate) fn thaw(&self) {
        for pid in self.home.processes() {
            send(pid, Signal::SIGCONT);
        }
    }

    /// It runs and stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.child().as_ref().is_some_and(|child| is_stopped(pid_of(child)))
    }

    /// Ends every process at once, as a power cut would.
    pub(crate) fn kill(&self) {
        let status = self.end().expect("it runs");
        assert_eq!(status.signal(), Some(9), "{}", self.log());
    }

    /// Asks the server to end, and waits.
    pub(crate) fn stop(&self, signal: Signal) {
        let mut process = self.child();
        let mut child = process.take().expect("it runs");
        send(pid_of(&child), signal);
        self.until("end", || child.try_wait().expect("wait").is_some());
        let status = child.wait().expect("wait");
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// Ends a server that nobody needs any more. A parent that ends before its children leaves them
    /// to the system, which may be slow to bury them. So it is asked first, even if it sleeps.
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
            // The parent first, so that it cannot see its children end.
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
    // It may have ended by itself.
    let _ = kill(pid, signal);
}

fn is_stopped(pid: Pid) -> bool {
    // pid (name) state …; the name may have any character.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
}
