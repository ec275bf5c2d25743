//! What the service manager is told, by systemd's notification protocol: when leafd serves, what it
//! is at in words for people ([`words`]), and that it lives ([`watchdog`]). Whether anybody listens
//! changes nothing: no message is waited for.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};

use nix::time::{ClockId, clock_gettime};

mod report;
pub mod watchdog;
pub mod words;

pub(crate) use report::report;

/// Names the socket that listens.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Longest text of a status, in characters.
const LONGEST: usize = 400;

/// The service manager, if there is one. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Manager(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    socket: UnixDatagram,
    address: SocketAddr,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// How leafd is.
    status: String,
    /// What is to be known beside it.
    note: String,
    /// Lines that the socket had no room for.
    unsent: String,
}

impl Manager {
    /// The one that `$NOTIFY_SOCKET` names.
    #[must_use]
    pub fn of_environment() -> Self {
        std::env::var_os(VARIABLE).map_or_else(Self::default, |name| Self::at(&name))
    }

    /// The one that listens at `name`: a path, or `@` and an abstract name. Any other is none.
    #[must_use]
    pub fn at(name: &OsStr) -> Self {
        let made = address(name).and_then(|address| {
            // One that blocks would hold up whoever serves when the other side hangs.
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok(Inner { socket, address, told: Mutex::default() })
        });
        Self(made.ok().map(Arc::new))
    }

    /// Whether anybody may listen.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// leafd serves.
    pub fn ready(&self, status: &str) {
        self.tell(&["READY=1"], |told| status.clone_into(&mut told.status));
    }

    /// How leafd is by now; sent when it is news.
    pub fn status(&self, status: &str) {
        let news = self.0.as_ref().is_some_and(|inner| {
            let told = inner.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.status != status || !told.unsent.is_empty()
        });
        if news {
            self.tell(&[], |told| status.clone_into(&mut told.status));
        }
    }

    /// leafd begins to read its configuration anew. [`Self::reloaded`] must follow.
    pub fn reloading(&self) {
        // It has to be the clock at the moment of sending, by which the answer is known.
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
        let usec = now.map_or(0, |now| {
            i128::from(now.tv_sec()) * 1_000_000 + i128::from(now.tv_nsec()) / 1000
        });
        self.tell(&["RELOADING=1", &format!("MONOTONIC_USEC={usec}")], |_| {});
    }

    /// It is done, and leafd serves as before, unless it was `refused` for a reason: that is part
    /// of the status from now on, until a later one goes well.
    pub fn reloaded(&self, refused: Option<&str>) {
        let note = refused.map(|why| format!("the last reload was refused: {}", joined(why)));
        self.tell(&["READY=1"], |told| told.note = note.unwrap_or_default());
    }

    /// leafd begins to stop.
    pub fn stopping(&self, status: &str) {
        self.tell(&["STOPPING=1"], |told| status.clone_into(&mut told.status));
    }

    /// leafd ends, or does not start, because of this.
    pub fn failed(&self, why: &str) {
        self.tell(&[], |told| told.status = joined(why));
    }

    /// Whoever serves is alive.
    fn pet(&self) {
        if let Some(inner) = &self.0 {
            // The next one comes soon.
            let _ = inner.send("WATCHDOG=1\n");
        }
    }

    fn tell(&self, states: &[&str], change: impl FnOnce(&mut Told)) {
        let Some(inner) = &self.0 else { return };
        let mut told = inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut told);
        let mut message = std::mem::take(&mut told.unsent);
        for state in states {
            message.push_str(state);
            message.push('\n');
        }
        let status = if told.note.is_empty() {
            one_line(&told.status)
        } else {
            one_line(&format!("{}; {}", told.status, told.note))
        };
        if let Err(error) = inner.send(&format!("{message}STATUS={status}\n"))
            && error.kind() == io::ErrorKind::WouldBlock
        {
            // Said with the next word. What leafd is at is never out of date, and who reads it
            // late has nothing from how often it was said.
            told.unsent = states_of(&message);
        }
    }
}

impl Inner {
    fn send(&self, message: &str) -> io::Result<usize> {
        self.socket.send_to_addr(message.as_bytes(), &self.address)
    }
}

/// The last lines of `message`, as many as tell all: the order counts, and repetitions do not.
fn states_of(message: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in message.lines() {
        let key = line.split('=').next();
        lines.retain(|known| known.split('=').next() != key);
        lines.push(line);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// All lines as one: what is wrong is often said in the second.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line more would be another message.
fn one_line(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = line.take(LONGEST + 1).collect();
    if line.chars().count() > LONGEST {
        line.pop();
        line.push('…');
    }
    line
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A service manager that listens.
    pub(crate) struct Listener {
        socket: UnixDatagram,
        folder: tempfile::TempDir,
    }

    impl Listener {
        pub(crate) fn new() -> (Self, Manager) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("notify");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            (Self { socket, folder }, Manager::at(path.as_os_str()))
        }

        /// The next message that has come.
        pub(crate) fn next(&self) -> Option<String> {
            let mut buffer = [0; 8192];
            let length = self.socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        }
    }

    #[test]
    fn each_step_of_a_life_is_told_with_its_status() {
        let (listener, manager) = Listener::new();
        assert!(manager.is_there());
        manager.ready("Serving");
        assert_eq!(listener.next().unwrap(), "READY=1\nSTATUS=Serving\n");
        manager.status("Serving");
        assert_eq!(listener.next(), None, "it is no news");
        manager.status("Serving\nREADY=1");
        assert_eq!(listener.next().unwrap(), "STATUS=Serving READY=1\n");
        manager.status("Serving");
        listener.next().unwrap();
        manager.reloading();
        let told = listener.next().unwrap();
        let usec = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        let usec: u64 = usec.strip_suffix("\nSTATUS=Serving\n").unwrap().parse().unwrap();
        assert!(usec > 0);
        manager.reloaded(Some("1 problem:\n  log.level: \"loud\""));
        let refused = "Serving; the last reload was refused: 1 problem: log.level: \"loud\"";
        assert_eq!(listener.next().unwrap(), format!("READY=1\nSTATUS={refused}\n"));
        manager.reloaded(None);
        assert_eq!(listener.next().unwrap(), "READY=1\nSTATUS=Serving\n");
        manager.stopping("Stopping");
        assert_eq!(listener.next().unwrap(), "STOPPING=1\nSTATUS=Stopping\n");
        manager.failed("the disk is full\nand more");
        assert_eq!(listener.next().unwrap(), "STATUS=the disk is full and more\n");
        manager.failed(&"x".repeat(10_000));
        assert!(listener.next().unwrap().len() < 500);
    }

    #[test]
    fn what_a_full_socket_does_not_take_comes_later_and_nobody_waits() {
        let (listener, manager) = Listener::new();
        let mut sent = 0;
        while manager.0.as_ref().unwrap().send("x").is_ok() {
            sent += 1;
        }
        manager.ready("Serving");
        manager.reloading();
        manager.reloaded(None);
        manager.pet();
        for _ in 0..sent {
            assert_eq!(listener.next().unwrap(), "x");
        }
        assert_eq!(listener.next(), None);
        // Although it is no news.
        manager.status("Serving");
        let told = listener.next().unwrap();
        assert!(told.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told}");
        assert!(told.ends_with("\nREADY=1\nSTATUS=Serving\n"), "{told}");
        manager.status("Serving");
        assert_eq!(listener.next(), None);
    }

    #[test]
    fn without_anybody_to_tell_nothing_happens() {
        let (listener, gone) = Listener::new();
        drop(listener.folder);
        for manager in [gone, Manager::default(), Manager::at(OsStr::new("relative"))] {
            manager.ready("Serving");
            manager.pet();
            manager.stopping("Stopping");
        }
        assert!(!Manager::at(OsStr::new("")).is_there());
    }

    #[test]
    fn a_name_that_begins_with_an_at_sign_is_abstract() {
        let name = format!("@leafd-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Manager::at(OsStr::new(&name)).ready("Serving");
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\nSTATUS=Serving\n");
    }
}
