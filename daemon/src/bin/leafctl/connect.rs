//! Connects to the daemon that the command line names.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::{Error, Options};
use leafd::cli::leafctl::DaemonArgs;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::exit::Failure;

/// Connects, and retries until the timeout if no daemon is listening: a script should not notice a
/// restart.
///
/// # Errors
/// When no daemon appears in time, or it does not let this user in.
pub(crate) fn patient(daemon: &DaemonArgs) -> Result<Client, Failure> {
    Ok(Client::connect(Options::at(daemon.socket()).timeout(daemon.timeout()))?)
}

/// Connects, or fails at once if no daemon is listening: an operator who inspects the daemon wants
/// to know.
///
/// # Errors
/// When no daemon is listening, or it does not let this user in.
pub(crate) fn prompt(daemon: &DaemonArgs) -> Result<Client, Failure> {
    Ok(at_once(daemon, daemon.timeout())?)
}

/// Like [`prompt`], but with a timeout of its own and the client's error.
///
/// # Errors
/// As [`prompt`].
pub(crate) fn at_once(daemon: &DaemonArgs, timeout: Duration) -> Result<Client, Error> {
    to(daemon.socket(), timeout)
}

/// Like [`at_once`], to the daemon on the socket `path`.
///
/// # Errors
/// As [`prompt`].
pub(crate) fn to(path: PathBuf, timeout: Duration) -> Result<Client, Error> {
    match dial(&path) {
        // EAGAIN: the queue of new connections is full, so a daemon is listening.
        Ok(_) | Err(Errno::EAGAIN) => Client::connect(Options::at(path).timeout(timeout)),
        Err(error) => {
            let source = Arc::new(io::Error::from(error));
            Err(Error::Unavailable { path, source })
        }
    }
}

/// Opens a non-blocking connection without waiting: if the daemon's queue of new connections is
/// full, the result is `EAGAIN`.
pub(crate) fn dial(path: &Path) -> nix::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}
