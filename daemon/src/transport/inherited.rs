//! Listening sockets that the service manager opened and passes on, by the names that it has for
//! them. They stay its own: they are accepted from, and never bound, removed or shut down here.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt,
};

/// What a socket is for: its name in the socket unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `local`: for applications.
    Local,
    /// `peer`: for other leafd daemons.
    Peer,
}

impl Purpose {
    fn parse(name: &str) -> Option<Self> {
        [Self::Local, Self::Peer].into_iter().find(|purpose| purpose.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "peer",
        }
    }

    fn takes(self, family: AddressFamily) -> bool {
        match self {
            Self::Local => family == AddressFamily::Unix,
            Self::Peer => matches!(family, AddressFamily::Inet | AddressFamily::Inet6),
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Local => {
                "it has to be a Unix stream socket that listens: ListenStream=/run/leafd/leafd.sock \
                 with FileDescriptorName=local and Accept=no"
            }
            Self::Peer => {
                "it has to be a TCP socket that listens: ListenStream=8735 with \
                 FileDescriptorName=peer and Accept=no"
            }
        }
    }
}

/// Sockets that cannot be meant for leafd.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// The environment does not fit what is open.
    #[error(
        "the sockets that the service manager passes cannot be told apart (LISTEN_FDS={count:?}, \
         LISTEN_FDNAMES={names:?}): {source}; let a socket unit pass them, with \
         FileDescriptorName=local"
    )]
    Environment {
        /// Of the environment.
        count: String,
        /// Of the environment.
        names: String,
        /// What is wrong.
        source: io::Error,
    },
    /// No purpose has this name.
    #[error(
        "the service manager passes a socket named {0:?}, and leafd knows \"local\", for \
         applications, and \"peer\", for other leafd daemons; name it in the socket unit: \
         FileDescriptorName=local"
    )]
    Unknown(String),
    /// One name for two sockets.
    #[error(
        "the service manager passes two sockets named {name:?}; leave one ListenStream= of all \
         socket units with FileDescriptorName={name}",
        name = .0.name()
    )]
    Twice(Purpose),
    /// It is no listening socket of the right kind.
    #[error(
        "the service manager passes {found} as the socket {name:?}, and {remedy}",
        name = purpose.name(),
        remedy = purpose.remedy()
    )]
    Wrong {
        /// What it was to be.
        purpose: Purpose,
        /// What it is, in words.
        found: String,
    },
}

/// What the service manager passes on; non-blocking, and closed in programs that are executed.
#[derive(Debug, Default)]
pub struct Inherited {
    /// For applications.
    pub local: Option<UnixListener>,
    /// For other leafd daemons.
    pub peer: Option<TcpListener>,
}

impl Inherited {
    /// Takes what `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` tell of. To be called before
    /// anything else is opened; a second call finds nothing.
    ///
    /// # Errors
    /// When a socket is not one that leafd can use.
    pub fn take() -> Result<Self, InheritError> {
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
        // All are owned before the first is looked at, so that none stays open by an error.
        Self::sort(sockets.into_iter().map(|(name, fd)| (name, own(fd))).collect())
    }

    fn sort(sockets: Vec<(String, OwnedFd)>) -> Result<Self, InheritError> {
        let mut sorted = Self::default();
        for (name, socket) in sockets {
            let purpose = Purpose::parse(&name).ok_or(InheritError::Unknown(name))?;
            let taken = match purpose {
                Purpose::Local => sorted.local.is_some(),
                Purpose::Peer => sorted.peer.is_some(),
            };
            if taken {
                return Err(InheritError::Twice(purpose));
            }
            let wrong = |found| InheritError::Wrong { purpose, found };
            check(purpose, &socket).map_err(wrong)?;
            let unusable = |error: io::Error| wrong(format!("what cannot be used ({error})"));
            match purpose {
                Purpose::Local => {
                    let listener = UnixListener::from(socket);
                    listener.set_nonblocking(true).map_err(unusable)?;
                    sorted.local = Some(listener);
                }
                Purpose::Peer => {
                    let listener = TcpListener::from(socket);
                    listener.set_nonblocking(true).map_err(unusable)?;
                    sorted.peer = Some(listener);
                }
            }
        }
        Ok(sorted)
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

#[expect(unsafe_code, reason = "the one way to own what is passed on; see the comment on safety")]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: `listen_fds` has just found it open, and gives each number once. It was
    // passed to this process at its start (LISTEN_PID is ours) for this purpose, `take` comes
    // before anything that opens files of its own, and runs once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// What is wrong with a socket, in words.
fn check(purpose: Purpose, socket: &OwnedFd) -> Result<(), String> {
    let kind = match getsockopt(socket, sockopt::SockType) {
        Ok(kind) => kind,
        Err(Errno::ENOTSOCK) => return Err("something that is not a socket".into()),
        Err(error) => return Err(format!("what cannot be examined ({error})")),
    };
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd());
    let address = address.map_err(|error| format!("what cannot be examined ({error})"))?;
    let family = address.family();
    let listens = getsockopt(socket, sockopt::AcceptConn).unwrap_or(false);
    if family.is_some_and(|family| purpose.takes(family)) && kind == SockType::Stream && listens {
        return Ok(());
    }
    Err(Found { family, kind, listens, address }.to_string())
}

struct Found {
    family: Option<AddressFamily>,
    kind: SockType,
    listens: bool,
    address: SockaddrStorage,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Some(AddressFamily::Unix) => "Unix",
            Some(AddressFamily::Inet | AddressFamily::Inet6) => "Internet",
            _ => return write!(f, "a socket of another family"),
        };
        let kind = match self.kind {
            SockType::Stream => "stream",
            SockType::Datagram => "datagram",
            SockType::SeqPacket => "sequential-packet",
            _ => "raw",
        };
        // "an Unix socket" is no English.
        let article = if family == "Internet" { "an" } else { "a" };
        let how = if self.listens { "listening" } else { "not listening" };
        write!(f, "{article} {family} {kind} socket ({how}, {})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    type Named = (&'static str, OwnedFd);

    fn sorted(sockets: Vec<Named>) -> Result<Inherited, String> {
        let sockets = sockets.into_iter().map(|(name, fd)| (name.to_owned(), fd)).collect();
        Inherited::sort(sockets).map_err(|error| error.to_string())
    }

    fn local() -> OwnedFd {
        let dir = tempfile::tempdir().unwrap();
        UnixListener::bind(dir.path().join("s")).unwrap().into()
    }

    fn tcp() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn sockets_are_known_by_their_names_and_become_non_blocking() {
        for listener in [tcp(), TcpListener::bind("[::1]:0").unwrap_or_else(|_| tcp())] {
            let port = listener.local_addr().unwrap().port();
            let found = sorted(vec![("peer", listener.into()), ("local", local())]).unwrap();
            let (local, peer) = (found.local.unwrap(), found.peer.unwrap());
            assert_eq!(peer.local_addr().unwrap().port(), port);
            for fd in [OwnedFd::from(local), OwnedFd::from(peer)] {
                let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL).unwrap());
                assert!(flags.contains(OFlag::O_NONBLOCK));
            }
        }
        assert!(sorted(Vec::new()).unwrap().local.is_none());
    }

    #[test]
    fn names_belong_to_sockets_in_their_order() {
        let names = |count, names| named(3..3 + count, names).map_err(|error| error.to_string());
        let both = vec![("local".to_owned(), 3), ("peer".to_owned(), 4)];
        assert_eq!(names(2, "local:peer"), Ok(both));
        assert_eq!(names(0, "local:peer"), Ok(Vec::new()));
        assert_eq!(names(0, ""), Ok(Vec::new()));
        assert_eq!(names(2, "local").unwrap_err(), "2 sockets have 1 names");
    }

    #[test]
    fn what_cannot_be_meant_is_named_with_its_remedy() {
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
            let error = sorted(sockets).unwrap_err();
            assert!(expected.iter().all(|part| error.contains(part)), "{expected:?}: {error}");
        }
        let file = File::create(dir.path().join("f")).unwrap();
        let error = sorted(vec![("local", file.into())]).unwrap_err();
        assert!(error.contains("not a socket"), "{error}");
    }
}
