//! Listening sockets that the service manager opened and passes to leafd, each with a name. They stay
//! the service manager's: leafd accepts connections from them, and never binds, removes or shuts them
//! down.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt,
};

/// What a socket is for. A transport that takes over a socket has one of these in [`PURPOSES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SocketPurpose {
    /// `FileDescriptorName=` in the socket unit.
    name: &'static str,
    /// Who connects to it.
    clients: &'static str,
    family: SocketFamily,
    /// An example of `ListenStream=`.
    example: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketFamily {
    Unix,
    Tcp,
}

pub(crate) static LOCAL: SocketPurpose = SocketPurpose {
    name: "local",
    clients: "applications",
    family: SocketFamily::Unix,
    example: "/run/leafd/leafd.sock",
};

pub(crate) static PEER: SocketPurpose = SocketPurpose {
    name: "peer",
    clients: "other leafd daemons",
    family: SocketFamily::Tcp,
    example: "8735",
};

pub(crate) static HTTP: SocketPurpose = SocketPurpose {
    name: "http",
    clients: "callers by HTTP",
    family: SocketFamily::Tcp,
    example: "127.0.0.1:8736",
};

pub(crate) static HTTP_LOCAL: SocketPurpose = SocketPurpose {
    name: "http-local",
    clients: "callers by HTTP on this host",
    family: SocketFamily::Unix,
    example: "/run/leafd/http.sock",
};

static PURPOSES: [&SocketPurpose; 4] = [&LOCAL, &PEER, &HTTP, &HTTP_LOCAL];

impl SocketFamily {
    fn contains(self, family: AddressFamily) -> bool {
        match self {
            Self::Unix => family == AddressFamily::Unix,
            Self::Tcp => matches!(family, AddressFamily::Inet | AddressFamily::Inet6),
        }
    }
}

/// Why leafd cannot use the sockets that it was passed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InheritError {
    #[error(
        "leafd cannot tell which socket of the service manager is which (LISTEN_FDS={count:?}, \
         LISTEN_FDNAMES={names:?}): {source}; let a socket unit pass them, with \
         FileDescriptorName=local"
    )]
    Environment { count: String, names: String, source: io::Error },
    #[error(
        "the service manager passes a socket named {0:?}, and leafd knows {known}; name it in the \
         socket unit: FileDescriptorName=local",
        known = known_purposes()
    )]
    Unknown(String),
    #[error(
        "the service manager passes two sockets named {name:?}; leave one ListenStream= of all \
         socket units with FileDescriptorName={name}",
        name = .0.name
    )]
    Twice(&'static SocketPurpose),
    #[error(
        "the service manager passes {found} as the socket {name:?}, which must be a {family} socket \
         that listens: ListenStream={example} with FileDescriptorName={name} and Accept=no",
        name = purpose.name,
        example = purpose.example,
        family = match purpose.family {
            SocketFamily::Unix => "Unix stream",
            SocketFamily::Tcp => "TCP",
        }
    )]
    Wrong {
        purpose: &'static SocketPurpose,
        /// A description of the socket.
        found: String,
    },
}

fn known_purposes() -> String {
    let known = PURPOSES
        .iter()
        .map(|SocketPurpose { name, clients, .. }| format!("{name:?}, for {clients}"));
    known.collect::<Vec<_>>().join("; ")
}

/// The sockets that the service manager passes, non-blocking. Programs that leafd executes do not
/// inherit them.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<(&'static SocketPurpose, OwnedFd)>);

impl Inherited {
    /// Takes over the sockets that `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` describe. Call
    /// this before leafd opens anything. A second call finds nothing.
    ///
    /// # Errors
    /// When leafd cannot use one of the sockets.
    pub(crate) fn from_environment() -> Result<Self, InheritError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Ok(Self::default());
        }
        let variable = |name| std::env::var(name).unwrap_or_default();
        let names = variable("LISTEN_FDNAMES");
        let found = sd_notify::listen_fds().and_then(|sockets| named(sockets, &names));
        let sockets = found.map_err(|source| {
            let (count, names) = (variable("LISTEN_FDS"), names.clone());
            InheritError::Environment { count, names, source }
        })?;
        // Own all of them before checking the first, so that an error closes them all.
        Self::check_all(sockets.into_iter().map(|(name, fd)| (name, own(fd))).collect())
    }

    fn check_all(sockets: Vec<(String, OwnedFd)>) -> Result<Self, InheritError> {
        let mut checked = Self::default();
        for (name, socket) in sockets {
            let purpose = PURPOSES.iter().find(|purpose| purpose.name == name);
            let purpose: &SocketPurpose = purpose.ok_or(InheritError::Unknown(name))?;
            if checked.0.iter().any(|(taken, _)| *taken == purpose) {
                return Err(InheritError::Twice(purpose));
            }
            let usable = check(purpose.family, &socket).and_then(|()| make_non_blocking(&socket));
            usable.map_err(|found| InheritError::Wrong { purpose, found })?;
            checked.0.push((purpose, socket));
        }
        Ok(checked)
    }

    /// The socket for `purpose`, a Unix socket.
    pub(crate) fn take_unix(&mut self, purpose: &SocketPurpose) -> Option<UnixListener> {
        self.take(purpose).map(UnixListener::from)
    }

    /// The socket for `purpose`, a TCP socket.
    pub(crate) fn take_tcp(&mut self, purpose: &SocketPurpose) -> Option<TcpListener> {
        self.take(purpose).map(TcpListener::from)
    }

    fn take(&mut self, purpose: &SocketPurpose) -> Option<OwnedFd> {
        let index = self.0.iter().position(|(of, _)| *of == purpose)?;
        Some(self.0.swap_remove(index).1)
    }
}

/// Each socket with its name. Names without sockets are meant for another process.
fn named(
    sockets: impl ExactSizeIterator<Item = RawFd>,
    names: &str,
) -> io::Result<Vec<(String, RawFd)>> {
    let names: Vec<_> = names.split(':').map(str::to_owned).collect();
    if sockets.len() > 0 && sockets.len() != names.len() {
        let error = format!("{} sockets have {} names", sockets.len(), names.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(names.into_iter().zip(sockets).collect())
}

#[expect(
    unsafe_code,
    reason = "the only way to own a passed descriptor; see the comment on safety"
)]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: `listen_fds` has just found the descriptor open, and returns each number once. The
    // service manager passed it to this process for this purpose (LISTEN_PID is ours).
    // `from_environment` runs before leafd opens files of its own, and does this only once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Checks that `socket` is a listening stream socket of this family. The error describes what it is
/// instead.
fn check(wanted: SocketFamily, socket: &OwnedFd) -> Result<(), String> {
    let kind = match getsockopt(socket, sockopt::SockType) {
        Ok(kind) => kind,
        Err(Errno::ENOTSOCK) => return Err("something that is not a socket".into()),
        Err(error) => return Err(cannot_examine(error)),
    };
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd()).map_err(cannot_examine)?;
    let family = address.family();
    let listens = getsockopt(socket, sockopt::AcceptConn).unwrap_or(false);
    let is_wanted = family.is_some_and(|family| wanted.contains(family));
    if is_wanted && kind == SockType::Stream && listens {
        return Ok(());
    }
    Err(SocketDescription { family, kind, listens, address }.to_string())
}

fn cannot_examine(error: Errno) -> String {
    format!("something that leafd cannot examine ({error})")
}

fn make_non_blocking(socket: &OwnedFd) -> Result<(), String> {
    let set = || {
        let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
        fcntl(socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))
    };
    let outcome: nix::Result<_> = set();
    outcome.map(drop).map_err(|error| format!("something that leafd cannot use ({error})"))
}

struct SocketDescription {
    family: Option<AddressFamily>,
    kind: SockType,
    listens: bool,
    address: SockaddrStorage,
}

impl fmt::Display for SocketDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Some(AddressFamily::Unix) => "a Unix",
            Some(AddressFamily::Inet | AddressFamily::Inet6) => "an Internet",
            _ => return write!(f, "a socket of another family"),
        };
        let kind = match self.kind {
            SockType::Stream => "stream",
            SockType::Datagram => "datagram",
            SockType::SeqPacket => "sequential-packet",
            _ => "raw",
        };
        let how = if self.listens { "listening" } else { "not listening" };
        write!(f, "{family} {kind} socket ({how}, {})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    type Named = (&'static str, OwnedFd);

    fn checked(sockets: Vec<Named>) -> Result<Inherited, String> {
        let sockets = sockets.into_iter().map(|(name, fd)| (name.to_owned(), fd)).collect();
        Inherited::check_all(sockets).map_err(|error| error.to_string())
    }

    fn local() -> OwnedFd {
        let dir = tempfile::tempdir().unwrap();
        UnixListener::bind(dir.path().join("s")).unwrap().into()
    }

    fn tcp() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn sockets_are_recognised_by_their_names_and_become_non_blocking() {
        for listener in [tcp(), TcpListener::bind("[::1]:0").unwrap_or_else(|_| tcp())] {
            let port = listener.local_addr().unwrap().port();
            let mut found = checked(vec![("peer", listener.into()), ("local", local())]).unwrap();
            let local = found.take_unix(&LOCAL).unwrap();
            let peer = found.take_tcp(&PEER).unwrap();
            assert_eq!(peer.local_addr().unwrap().port(), port);
            for fd in [OwnedFd::from(local), OwnedFd::from(peer)] {
                let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL).unwrap());
                assert!(flags.contains(OFlag::O_NONBLOCK));
            }
        }
        assert!(checked(Vec::new()).unwrap().take_unix(&LOCAL).is_none());
    }

    #[test]
    fn the_names_are_in_the_order_of_the_sockets() {
        let names = |count, names| named(3..3 + count, names).map_err(|error| error.to_string());
        let both = vec![("local".to_owned(), 3), ("peer".to_owned(), 4)];
        assert_eq!(names(2, "local:peer"), Ok(both));
        assert_eq!(names(0, "local:peer"), Ok(Vec::new()));
        assert_eq!(names(0, ""), Ok(Vec::new()));
        assert_eq!(names(2, "local").unwrap_err(), "2 sockets have 1 names");
    }

    #[test]
    fn an_unusable_socket_is_described_together_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let stream = UnixStream::pair().unwrap().0;
        let listener = tcp();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagram = UnixDatagram::bind(dir.path().join("d")).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let cases: [(Vec<Named>, &[&str]); 9] = [
            (vec![("leafd.socket", local())], &["\"leafd.socket\"", "FileDescriptorName=local"]),
            (vec![("", local())], &["named \"\"", "FileDescriptorName=local"]),
            (vec![("local", local()), ("local", local())], &["two sockets named \"local\""]),
            (
                vec![("local", tcp().into())],
                &["an Internet stream socket (listening, 127.0.0.1:", "\"local\""],
            ),
            (vec![("peer", local())], &["a Unix stream socket", "\"peer\"", "ListenStream=8735"]),
            (vec![("local", datagram.into())], &["a Unix datagram socket", "listening"]),
            (vec![("local", stream.into())], &["not listening", "Accept=no"]),
            (vec![("peer", connected.into())], &["not listening", "FileDescriptorName=peer"]),
            (vec![("peer", udp.into())], &["an Internet datagram socket"]),
        ];
        for (sockets, expected) in cases {
            let error = checked(sockets).unwrap_err();
            assert!(expected.iter().all(|part| error.contains(part)), "{expected:?}: {error}");
        }
        let file = File::create(dir.path().join("f")).unwrap();
        let error = checked(vec![("local", file.into())]).unwrap_err();
        assert!(error.contains("not a socket"), "{error}");
    }
}
