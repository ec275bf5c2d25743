//! Connecting with a deadline, which the standard library lacks: `connect` on a Unix socket blocks
//! while the daemon's backlog is full, for example if the daemon's process is suspended. A thread
//! connects instead, and the caller stops waiting for it at the deadline.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use super::connection::ExchangeError;
use crate::session::ConnectionFailure;

/// Connects. It keeps an attempt that missed its deadline for the next call, so that only one
/// attempt runs at a time.
#[derive(Debug, Default)]
pub(super) struct Dialer {
    in_flight: Option<Receiver<io::Result<UnixStream>>>,
}

impl Dialer {
    pub(super) fn dial(
        &mut self,
        path: &Path,
        deadline: Instant,
    ) -> Result<UnixStream, ExchangeError> {
        let attempt = match self.in_flight.take() {
            Some(attempt) => attempt,
            None => start(path).map_err(|error| ExchangeError::Lost(error.into()))?,
        };
        match attempt.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map_err(|error| ExchangeError::Lost(error.into())),
            Err(RecvTimeoutError::Timeout) => {
                self.in_flight = Some(attempt);
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
        // If the client is gone, the send fails and drops the connection.
        let _ = result.send(UnixStream::connect(path));
    })?;
    Ok(attempt)
}
