//! Notifies the service manager by systemd's protocol: when leafd is ready, what it is doing in one
//! line ([`words`]), and that it is alive ([`watchdog`]). leafd never waits for a message to be
//! accepted, so it makes no difference whether anybody listens.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex};

use nix::time::{ClockId, clock_gettime};

use crate::lock::lock;

mod report;
pub(crate) mod watchdog;
pub(crate) mod words;

pub(crate) use report::report;

/// The variable with the name of the service manager's socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Longest text of a status, in characters.
const LONGEST: usize = 400;

/// The service manager, if there is one. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manager(Option<Arc<NotifySocket>>);

#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    address: SocketAddr,
    announced: Mutex<Announced>,
}

/// What the service manager knows, or will know.
#[derive(Debug, Default)]
struct Announced {
    status: String,
    /// Added to the status, such as why the last reload failed.
    note: String,
    /// Lines that the socket had no room for.
    unsent: String,
}

impl Manager {
    /// The service manager that `$NOTIFY_SOCKET` names.
    #[must_use]
    pub(crate) fn of_environment() -> Self {
        std::env::var_os(VARIABLE).map_or_else(Self::default, |name| Self::at(&name))
    }

    /// The service manager that listens at `name`: a path, or `@` and an abstract name. With any
    /// other name, there is none.
    #[must_use]
    pub(crate) fn at(name: &OsStr) -> Self {
        let opened = address(name).and_then(|address| {
            // Non-blocking: a service manager that hangs must not block leafd.
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok(NotifySocket { socket, address, announced: Mutex::default() })
        });
        Self(opened.ok().map(Arc::new))
    }

    /// Whether there is a service manager to notify.
    #[must_use]
    pub(crate) const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Reports that leafd serves.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&["READY=1"], |announced| status.clone_into(&mut announced.status));
    }

    /// Reports the status, if it has changed.
    pub(crate) fn status(&self, status: &str) {
        let has_changed = self.0.as_ref().is_some_and(|notify| {
            let announced = lock(&notify.announced);
            announced.status != status || !announced.unsent.is_empty()
        });
        if has_changed {
            self.tell(&[], |announced| status.clone_into(&mut announced.status));
        }
    }

    /// Reports that leafd begins to reload its configuration. Call [`Self::reloaded`] afterwards.
    pub(crate) fn reloading(&self) {
        // systemd wants the time of sending, to tell this reload from earlier ones.
        #[allow(clippy::disallowed_methods, reason = "systemd compares this with its own clock")]
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
        let usec = now.map_or(0, |now| {
            i128::from(now.tv_sec()) * 1_000_000 + i128::from(now.tv_nsec()) / 1000
        });
        self.tell(&["RELOADING=1", &format!("MONOTONIC_USEC={usec}")], |_| {});
    }

    /// Reports the end of a reload. If leafd `refused` it for a reason, that becomes part of the
    /// status until a later reload succeeds.
    pub(crate) fn reloaded(&self, refused: Option<&str>) {
        let note = refused.map(|why| format!("the last reload was refused: {}", joined(why)));
        self.tell(&["READY=1"], |announced| announced.note = note.unwrap_or_default());
    }

    /// Reports that leafd begins to stop.
    pub(crate) fn stopping(&self, status: &str) {
        self.tell(&["STOPPING=1"], |announced| status.clone_into(&mut announced.status));
    }

    /// Reports why leafd ends, or does not start.
    pub(crate) fn failed(&self, why: &str) {
        self.tell(&[], |announced| announced.status = joined(why));
    }

    /// Pets the watchdog.
    fn pet(&self) {
        if let Some(notify) = &self.0 {
            // If this fails, the next one comes soon.
            let _ = notify.send("WATCHDOG=1\n");
        }
    }

    fn tell(&self, states: &[&str], change: impl FnOnce(&mut Announced)) {
        let Some(notify) = &self.0 else { return };
        let mut announced = lock(&notify.announced);
        change(&mut announced);
        let mut message = std::mem::take(&mut announced.unsent);
        for state in states {
            message.push_str(state);
            message.push('\n');
        }
        let status = if announced.note.is_empty() {
            one_line(&announced.status)
        } else {
            one_line(&format!("{}; {}", announced.status, announced.note))
        };
        if let Err(error) = notify.send(&format!("{message}STATUS={status}\n"))
            && error.kind() == io::ErrorKind::WouldBlock
        {
            // Send the states with the next message. Only the latest status matters.
            announced.unsent = states_of(&message);
        }
    }
}

impl NotifySocket {
    fn send(&self, message: &str) -> io::Result<usize> {
        self.socket.send_to_addr(message.as_bytes(), &self.address)
    }
}

/// The last line of each state in `message`, in order: earlier lines of the same state do not
/// matter.
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

/// Joins all lines into one, because the second often says what is wrong.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces control characters and cuts the text at [`LONGEST`]. A line break would begin another
/// state.
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

    /// A service manager.
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

        /// The next message, if one has arrived.
        pub(crate) fn next(&self) -> Option<String> {
            let mut buffer = [0; 8192];
            let length = self.socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        }
    }

    #[test]
    fn the_service_manager_hears_of_each_step_with_the_status() {
        let (listener, manager) = Listener::new();
        assert!(manager.is_there());
        manager.ready("Serving");
        assert_eq!(listener.next().unwrap(), "READY=1\nSTATUS=Serving\n");
        manager.status("Serving");
        assert_eq!(listener.next(), None, "the status has not changed");
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
    fn what_a_full_socket_does_not_accept_is_sent_later_without_waiting() {
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
        // Although the status has not changed.
        manager.status("Serving");
        let told = listener.next().unwrap();
        assert!(told.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told}");
        assert!(told.ends_with("\nREADY=1\nSTATUS=Serving\n"), "{told}");
        manager.status("Serving");
        assert_eq!(listener.next(), None);
    }

    #[test]
    fn without_a_service_manager_nothing_happens() {
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
