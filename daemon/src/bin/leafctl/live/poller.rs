//! The thread that asks leafd. It connects for each question, as an operator would who types the
//! command again: an open connection would retry for seconds where nobody listens any more.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::exit::Failure;

/// What came of one question.
pub(crate) struct Reading<T> {
    /// When it was asked, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) result: Result<T, Failure>,
}

/// The asking thread, seen from outside. It ends with the process, or when this is dropped.
pub(super) struct Poller<T> {
    readings: Receiver<Reading<T>>,
    bell: UnixStream,
}

impl<T: Send + 'static> Poller<T> {
    /// Asks at once, and then after each `interval`.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub(super) fn start(
        interval: Duration,
        ask: impl FnMut() -> Result<T, Failure> + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (to, readings) = channel();
        let run = move || poll(interval, ask, &to, &ring);
        thread::Builder::new().name("status".to_owned()).spawn(run)?;
        Ok(Self { readings, bell })
    }

    /// Readable when there are readings.
    pub(super) const fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// The readings since the last call.
    pub(super) fn readings(&self) -> impl Iterator<Item = Reading<T>> {
        self.readings.try_iter()
    }
}

fn poll<T>(
    interval: Duration,
    mut ask: impl FnMut() -> Result<T, Failure>,
    to: &Sender<Reading<T>>,
    mut ring: &UnixStream,
) {
    loop {
        let at_ms = now_ms();
        let result = ask();
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
