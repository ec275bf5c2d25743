//! A service manager as a daemon sees it: it receives the daemon's notifications, and can keep the
//! listening socket open across restarts.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::daemon::Home;

/// The settings for its daemons, and the socket that receives their notifications.
#[derive(Debug)]
pub struct ServiceManager {
    home: Home,
    notified: UnixDatagram,
}

impl ServiceManager {
    /// A manager of daemons in `folder` that make their own listening socket.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("notify");
        let notified = UnixDatagram::bind(&path).expect("a socket");
        let home = Home::new(folder).with_variable("NOTIFY_SOCKET", &path.to_string_lossy());
        Self { home, notified }
    }

    /// A manager that makes the listening socket and passes it to its daemons.
    #[must_use]
    pub fn listening(folder: &Path) -> Self {
        let Self { home, notified } = Self::new(folder);
        let listener = UnixListener::bind(home.socket()).expect("a socket");
        Self { home: home.inheriting("local", listener), notified }
    }

    /// The settings to start its daemons with.
    #[must_use]
    pub fn home(&self) -> Home {
        self.home.clone()
    }

    /// The next notification, if one comes within `time`.
    #[must_use]
    pub fn hears_within(&self, time: Duration) -> Option<String> {
        let mut buffer = vec![0; 65_536];
        self.notified.set_read_timeout(Some(time)).expect("a time");
        match self.notified.recv(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                Some(String::from_utf8(buffer).expect("text"))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for a notification that contains `part`. Returns it and all that came before it.
    #[must_use]
    pub fn hears(&self, part: &str) -> Vec<String> {
        let began = Instant::now();
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last: &String| !last.contains(part)) {
            let left = PATIENCE.checked_sub(began.elapsed());
            let next = left.and_then(|left| self.hears_within(left.max(Duration::from_millis(1))));
            let Some(next) = next else {
                panic!("{part:?} is not among {heard:#?}\n{}", self.home.log());
            };
            heard.push(next);
        }
        heard
    }
}
