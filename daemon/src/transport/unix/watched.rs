//! Sockets watched for what is of interest and nothing else. tokio's own `UnixStream` is always
//! watched for room to write as well, so that a peer that reads its answer wakes us for nothing:
//! a seventh of the time of a request where both share a core.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a socket, which has to be non-blocking, within the runtime that this is called in.
///
/// # Errors
/// When the event queue does not take it.
#[expect(unsafe_code, reason = "the one way to choose the interest; see the comment on safety")]
pub(crate) fn watched<S>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>>
where
    S: AsRawFd + Into<OwnedFd>,
{
    // SAFETY: a type that turns into an `OwnedFd` owns one descriptor, which stays open and the
    // same for as long as the value lives, and the value lives inside of the `AsyncFd`. It is only
    // lent out by reference, and no method of std's sockets replaces their descriptor.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(Into::into)
}
