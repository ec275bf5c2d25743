//! The thread that asks leafd. It connects for each question, as an operator would who types the
//! command again: an open connection would retry for seconds where nobody listens any more.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafd::cli::leafctl::DaemonArgs;

use super::super::gather::{self, Snapshot};
use crate::connect;
use crate::exit::Failure;

/// What came of one question.
pub(super) struct Reading {
    /// When it was asked, in milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) result: Result<Snapshot, Failure>,
}

/// The asking thread, seen from outside. It ends with the process, or when this is dropped.
pub(super) struct Poller {
    readings: Receiver<Reading>,
    bell: UnixStream,
}

impl Poller {
    /// Asks at once, and then after each `interval`, for the status and the first `most` tags.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub(super) fn start(daemon: &DaemonArgs, interval: Duration, most: usize) -> io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (to, readings) = channel();
        let daemon = daemon.clone();
        let ask = move || poll(&daemon, interval, most, &to, &ring);
        thread::Builder::new().name("status".to_owned()).spawn(ask)?;
        Ok(Self { readings, bell })
    }

    /// Readable when there are readings.
    pub(super) const fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// The readings since the last call.
    pub(super) fn readings(&self) -> impl Iterator<Item = Reading> {
        self.readings.try_iter()
    }
}

fn poll(
    daemon: &DaemonArgs,
    interval: Duration,
    most: usize,
    to: &Sender<Reading>,
    mut ring: &UnixStream,
) {
    loop {
        let at_ms = now_ms();
        let client = connect::prompt(daemon);
        let result = client.and_then(|mut client| gather::read(&mut client, most));
        if to.send(Reading { at_ms, result }).is_err() || ring.write_all(&[0]).is_err() {
            return;
        }
        thread::sleep(interval);
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
