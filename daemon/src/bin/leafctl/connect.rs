//! Reaching the daemon that the command line names.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::{Error, Options};
use leafd::cli::leafctl::DaemonArgs;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::exit::Failure;

/// A client that waits for a daemon that is away, as long as its timeout allows: a restart is
/// nothing that a script has to know of.
///
/// # Errors
/// When there is no daemon until then, or it does not let this user in.
pub(crate) fn patient(daemon: &DaemonArgs) -> Result<Client, Failure> {
    Ok(Client::connect(Options::at(daemon.socket()).timeout(daemon.timeout()))?)
}

/// A client for someone who looks at the daemon: that it is away is the answer, and at once.
///
/// # Errors
/// When there is no daemon now, or it does not let this user in.
pub(crate) fn prompt(daemon: &DaemonArgs) -> Result<Client, Failure> {
    Ok(at_once(daemon, daemon.timeout())?)
}

/// The same, with the error as the client has it.
///
/// # Errors
/// As above.
pub(crate) fn at_once(daemon: &DaemonArgs, timeout: Duration) -> Result<Client, Error> {
    let path = daemon.socket();
    match dial(&path) {
        // With a full queue, too, somebody is there.
        Ok(_) | Err(Errno::EAGAIN) => Client::connect(Options::at(path).timeout(timeout)),
        Err(error) => {
            let source = Arc::new(io::Error::from(error));
            Err(Error::Unavailable { path, source })
        }
    }
}

/// A connection that does not block. Never waits: where the daemon's queue of new connections is
/// full, that is `EAGAIN`.
pub(crate) fn dial(path: &Path) -> nix::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}
