//! A server as a process: started, frozen, killed, stopped, and started again on its data.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::Home;
use super::product::Product;
use super::session::Session;
use super::{Extra, PATIENCE, template};

/// How long a server may take to answer a single question while it is starting.
const PROBE: Duration = Duration::from_secs(5);

/// How many ports are tried; somebody may take one between its choice and its use.
const PORTS: usize = 20;

/// A server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    product: &'static dyn Product,
    port: u16,
    process: Mutex<Option<Child>>,
    home: Home,
    arguments: Vec<String>,
}

impl std::fmt::Debug for dyn Product {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Server {
    /// Starts a new instance, with more in its data folder and on its command line than usual.
    pub(crate) fn start(product: &'static dyn Product, extra: Extra<'_>) -> Self {
        let home = Home::new(product.account());
        template::copy(product, &home);
        for (name, content) in extra.files {
            home.write(name, content);
        }
        Self::serve(product, home, extra.arguments)
    }

    /// Starts on the data of a home.
    pub(crate) fn serve(product: &'static dyn Product, home: Home, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { product, port: 0, process: Mutex::new(None), home, arguments };
        let mut reason = String::new();
        for _ in 0..PORTS {
            server.port = free_port();
            match server.try_start() {
                Ok(()) => return server,
                Err(log) if log.contains("Address already in use") => reason = log,
                Err(log) => panic!("{} does not start\n{log}", product.name()),
            }
        }
        panic!("{} finds no port\n{reason}", product.name());
    }

    /// Starts the process and waits until it answers; what it logged, if it ends instead.
    fn try_start(&self) -> Result<(), String> {
        let mut process = self.process();
        assert!(process.is_none(), "{} runs already", self.product.name());
        let log = File::create(self.home.folder().join("log")).expect("the log");
        let mut command = self.product.serve(self.home.folder(), self.port);
        let command = self.home.settle(&mut command).args(&self.arguments);
        let command = command.stdout(log.try_clone().expect("the log")).stderr(log);
        let child = process.insert(command.spawn().unwrap_or_else(|error| {
            panic!("{}", self.home.cannot_start(command, &error));
        }));
        let began = Instant::now();
        while !self.is_ready() {
            if child.try_wait().expect("wait").is_some() {
                *process = None;
                return Err(self.log());
            }
            let name = self.product.name();
            assert!(began.elapsed() < PATIENCE, "{name} does not get ready\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// It answers: this one, since nobody else has a socket in its folder.
    fn is_ready(&self) -> bool {
        let url = self.superuser_url(self.product.first_database());
        let session = Session::open_within(PROBE, &url);
        let answer = session.and_then(|session| session.query_within(PROBE, "SELECT 1"));
        answer.is_some_and(|answer| answer.is_ok())
    }

    pub(crate) fn product(&self) -> &'static dyn Product {
        self.product
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process().as_ref().expect("it runs").id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.folder().join("log")).unwrap_or_default()
    }

    fn superuser_url(&self, database: &str) -> String {
        self.product.superuser_url(self.home.folder(), self.port, database)
    }

    /// A session as the superuser.
    pub(crate) fn session(&self, database: &str) -> Session {
        let session = Session::open(&self.superuser_url(database));
        let name = self.product.name();
        session.unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.log()))
    }

    pub(crate) fn create_database(&self, name: &str) {
        let mut session = self.session(self.product.first_database());
        session.execute(&self.product.create_database(name));
        let mut session = self.session(name);
        for statement in self.product.prepare_database() {
            session.execute(statement);
        }
    }

    /// Stops every process, as it is, until `thaw`.
    pub(crate) fn freeze(&self) {
        assert!(self.process().is_some(), "{} does not run", self.product.name());
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

    /// Ends every process at once, as a power cut would.
    pub(crate) fn kill(&self) {
        let status = self.end().expect("it runs");
        assert_eq!(status.signal(), Some(9), "{}", self.log());
    }

    /// Asks the server to end, and waits.
    pub(crate) fn stop(&self) {
        let mut process = self.process();
        let mut child = process.take().expect("it runs");
        send(pid_of(&child), self.product.stop_signal());
        self.until("end", || child.try_wait().expect("wait").is_some());
        let status = child.wait().expect("wait");
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// Starts it on its data, at its port.
    pub(crate) fn start_again(&self) {
        if let Err(log) = self.try_start() {
            panic!("{} does not start again\n{log}", self.product.name());
        }
    }

    fn end(&self) -> Option<ExitStatus> {
        let child = self.process().take();
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
            let name = self.product.name();
            assert!(began.elapsed() < PATIENCE, "{name} does not {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A parent that ends before its children leaves them to the system, which may be slow to
        // bury them. So it is asked first, even if it sleeps.
        self.thaw();
        if let Some(child) = self.process().as_mut() {
            send(pid_of(child), self.product.quit_signal());
            let began = Instant::now();
            while began.elapsed() < PATIENCE && child.try_wait().is_ok_and(|end| end.is_none()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
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

/// A port that nobody has, below those that the kernel gives to connections: a server that is
/// started again has to find it free.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..30_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
