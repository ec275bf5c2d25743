//! Registers a socket for the events that matter, and no others. tokio's own `UnixStream` is always
//! registered for room to write as well, so a client that reads its answer would wake leafd for
//! nothing: a seventh of a request's time where both share a core.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `socket`, which must be non-blocking, with the runtime that this is called in.
///
/// # Errors
/// When the event queue does not take it.
#[expect(unsafe_code, reason = "the one way to choose the interest; see the comment on safety")]
pub(super) fn watched<S>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>>
where
    S: AsRawFd + Into<OwnedFd>,
{
    // SAFETY: a type that converts into an `OwnedFd` owns one descriptor, which stays open and the
    // same while the value lives, and the value lives inside the `AsyncFd`. The `AsyncFd` lends it
    // out only by reference, and no method of std's sockets replaces their descriptor.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(Into::into)
}
