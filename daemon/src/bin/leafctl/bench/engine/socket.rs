//! Opens connections, and backs off while that fails.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::link::Link;
use crate::connect::dial;

const SHORTEST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Opens a non-blocking connection and sends the greeting on it. Never waits.
pub(super) fn open(path: &Path) -> io::Result<UnixStream> {
    let mut stream = dial(path)?;
    let hello = Link::hello();
    // The greeting fits into the buffer of a new socket.
    match stream.write(&hello)? {
        len if len == hello.len() => Ok(stream),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// The time between attempts, which doubles up to half a second.
#[derive(Debug)]
pub(super) struct ReconnectDelay(Duration);

impl ReconnectDelay {
    pub(super) fn new() -> Self {
        Self(SHORTEST_WAIT)
    }

    /// How long to wait before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

/// Whether to retry the read or write later.
pub(super) fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
