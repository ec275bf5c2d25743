//! A service manager as a daemon sees it: it holds the listening socket over the lives of daemons,
//! and hears what they tell.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::daemon::Home;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Holds sockets in a folder.
#[derive(Debug)]
pub struct ServiceManager {
    home: Home,
    notified: UnixDatagram,
}

impl ServiceManager {
    /// Hears of daemons that keep everything in `folder` and make their socket themselves.
    ///
    /// # Panics
    /// When the socket cannot be made.
    #[must_use]
    pub fn that_hears(folder: &Path) -> Self {
        let path = folder.join("notify");
        let notified = UnixDatagram::bind(&path).expect("a socket");
        let home = Home::new(folder).with_variable("NOTIFY_SOCKET", &path.to_string_lossy());
        Self { home, notified }
    }

    /// The same, and listens for them.
    ///
    /// # Panics
    /// When a socket cannot be made.
    #[must_use]
    pub fn that_listens(folder: &Path) -> Self {
        let Self { home, notified } = Self::that_hears(folder);
        let listener = UnixListener::bind(home.socket()).expect("a socket");
        Self { home: home.inheriting("local", listener), notified }
    }

    /// What daemons are started with.
    #[must_use]
    pub fn home(&self) -> Home {
        self.home.clone()
    }

    /// The next message, if one comes within `time`.
    ///
    /// # Panics
    /// When it is not text.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on")]
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

    /// All that comes up to the first message that has `part`, that one included.
    ///
    /// # Panics
    /// When none comes.
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
