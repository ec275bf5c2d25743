//! Connecting within a deadline. The standard library cannot: connecting to a Unix socket waits
//! for as long as the daemon's queue of new connections is full, as that of a stopped process is.
//! So a thread connects, and whoever has no more time leaves it alone.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use super::connection::ExchangeError;
use crate::session::ConnectionFailure;

/// Connects; keeps an attempt that did not end in time, so that there is never more than one.
#[derive(Debug, Default)]
pub(super) struct Dialer {
    under_way: Option<Receiver<io::Result<UnixStream>>>,
}

impl Dialer {
    pub(super) fn dial(
        &mut self,
        path: &Path,
        deadline: Instant,
    ) -> Result<UnixStream, ExchangeError> {
        let attempt = match self.under_way.take() {
            Some(attempt) => attempt,
            None => start(path).map_err(|error| ExchangeError::Lost(error.into()))?,
        };
        match attempt.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map_err(|error| ExchangeError::Lost(error.into())),
            Err(RecvTimeoutError::Timeout) => {
                self.under_way = Some(attempt);
                Err(ExchangeError::DeadlinePassed)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(ExchangeError::Lost(ConnectionFailure::closed()))
            }
        }
    }
}

fn start(path: &Path) -> io::Result<Receiver<io::Result<UnixStream>>> {
    let (result, attempt) = sync_channel(1);
    let path = path.to_owned();
    thread::Builder::new().name("leaf-connect".into()).spawn(move || {
        // Nobody listens any more when the client is gone; the connection then closes.
        let _ = result.send(UnixStream::connect(path));
    })?;
    Ok(attempt)
}
