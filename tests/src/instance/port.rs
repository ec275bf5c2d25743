//! A port of this host that belongs to one server as long as this is kept, also while the server is
//! down: it has to find it again when it is started once more.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};

/// A port that is taken and not listened at. Whoever sets SO_REUSEADDR, as servers do, may listen
/// at it all the same; who reserves one, or lets the kernel choose, gets another.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _taken: OwnedFd,
}

impl Port {
    /// Takes a port, below those that the kernel gives to connections.
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
        // Without the option, this fails where anybody is, listening or not.
        bind(taken.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, number)).ok()?;
        // With it, others who have it may come.
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
    fn a_port_is_taken_once_and_its_server_may_listen_again_and_again() {
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
