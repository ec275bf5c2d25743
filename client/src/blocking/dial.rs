//! Connecting with a deadline, which the standard library lacks: `connect` on a Unix socket blocks
//! while the daemon's backlog is full, for example if the daemon's process is suspended. Linux lets it
//! wait for at most the socket's send timeout.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::connection::{ExchangeError, time_left};
use super::descriptor::{Descriptor, NotedDescriptor};
use crate::path::check_socket_path;

/// Connects, and notes the descriptor in `place` before that: a fork may come while this waits. The stream's
/// write timeout is still what was left before the deadline.
pub(super) fn dial(
    path: &Path,
    place: Option<&Arc<Descriptor>>,
    deadline: Instant,
) -> Result<(NotedDescriptor, UnixStream), ExchangeError> {
    check_socket_path(path)?;
    let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(io::Error::from)?;
    // Dropped before the socket, whatever happens.
    let note = NotedDescriptor::of(&socket, place);
    loop {
        let left = time_left(deadline)?;
        set_socket_timeout(&socket, Timeout::Send, Some(left)).map_err(io::Error::from)?;
        match connect(&socket, &address) {
            Ok(()) => return Ok((note, socket.into())),
            // The timeout, which may come a moment before the deadline, or a signal.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A folder that is removed at the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("leaf-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn socket(&self) -> std::path::PathBuf {
            self.0.join("socket")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A listener whose backlog has one place, and the connection that takes it.
    fn full_listener(path: &Path) -> (UnixListener, UnixStream) {
        let listener = UnixListener::bind(path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let (_, first) = dial(path, None, Instant::now() + Duration::from_secs(60)).unwrap();
        (listener, first)
    }

    #[test]
    fn connecting_to_a_full_backlog_ends_at_the_deadline_and_not_before() {
        let folder = Folder::new("dial-full");
        let _full = full_listener(&folder.socket());
        let deadline = Instant::now() + Duration::from_millis(50);
        let refused = dial(&folder.socket(), None, deadline);
        assert!(matches!(refused, Err(ExchangeError::DeadlinePassed)), "{refused:?}");
        assert!(Instant::now() >= deadline);
    }

    #[test]
    fn connecting_goes_on_as_soon_as_a_full_backlog_has_room() {
        let folder = Folder::new("dial-room");
        let (listener, _first) = full_listener(&folder.socket());
        thread::scope(|scope| {
            let deadline = Instant::now() + Duration::from_secs(60);
            let path = folder.socket();
            let dialing = scope.spawn(move || dial(&path, None, deadline));
            thread::sleep(Duration::from_millis(20));
            listener.accept().unwrap();
            dialing.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_an_error() {
        let deadline = Instant::now() + Duration::from_secs(60);
        for (path, words) in [
            ("/nowhere/at/all", "No such file or directory"),
            ("", "EmptySocketPath"),
            (&"x".repeat(108), "SocketPathTooLong(108)"),
            ("a\0b", "NulInSocketPath"),
        ] {
            match dial(Path::new(path), None, deadline) {
                Err(ExchangeError::Lost(failure)) => {
                    let told = format!("{failure:?}");
                    assert!(told.contains(words), "{path:?}: {told}");
                }
                other => panic!("{path:?}: {other:?}"),
            }
        }
    }
}
