//! The signals that leafd listens for.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// The signals that end leafd.
pub(super) struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

/// Starts to listen; call this before there is anything to stop cleanly. Returns the signals that
/// end leafd, and the one that asks for a reload.
pub(super) fn listen() -> Result<(Ending, Signal), Failure> {
    let listen = |kind, name| {
        signal(kind).map_err(|error| Failure::system(&format!("cannot listen for {name}"), &error))
    };
    // Scripts for other daemons send these signals, which kill a process by default. Once a process
    // has listened for a signal, it has no effect any more.
    drop(listen(SignalKind::user_defined1(), "SIGUSR1")?);
    drop(listen(SignalKind::user_defined2(), "SIGUSR2")?);
    let ending = Ending {
        terminate: listen(SignalKind::terminate(), "SIGTERM")?,
        interrupt: listen(SignalKind::interrupt(), "SIGINT")?,
    };
    Ok((ending, listen(SignalKind::hangup(), "SIGHUP")?))
}

impl Ending {
    /// Waits for SIGTERM or SIGINT.
    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
