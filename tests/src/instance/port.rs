//! A port of this host that is reserved for one server, even while the server is down, so that a
//! restarted server gets the same port.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};

/// A port that is bound but not listened on. A server can still listen on it, since servers set
/// SO_REUSEADDR. Another reservation, or the kernel's choice of a free port, gets a different one.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _taken: OwnedFd,
}

impl Port {
    /// Reserves a port below the kernel's range for outgoing connections.
    pub(crate) fn reserve() -> Self {
        loop {
            if let Some(port) = Self::take(fastrand::u16(10_000..30_000)) {
                return port;
            }
        }
    }

    fn take(number: u16) -> Option<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let taken = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
        // Without the option, this fails if anybody uses the port, listening or not.
        bind(taken.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, number)).ok()?;
        // With it, sockets that have it too may bind the port from now on.
        setsockopt(&taken, sockopt::ReuseAddr, &true).expect("SO_REUSEADDR");
        Some(Self { number, _taken: taken })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_twice_and_its_server_can_listen_again_and_again() {
        let port = Port::reserve();
        let address = ("127.0.0.1", port.number());
        assert!(Port::take(port.number()).is_none());
        TcpStream::connect(address).expect_err("nobody listens");
        for _ in 0..3 {
            let listener = TcpListener::bind(address).expect("the standard library sets it");
            assert!(Port::take(port.number()).is_none());
            TcpStream::connect(address).expect("it listens");
            drop(listener);
        }
    }
}
