//! The other side of a connection, as far as connections are shared out fairly.

use std::net::{IpAddr, Ipv6Addr};

/// Whose connection it is. This decides about room alone; the rules decide by a
/// [`Principal`](crate::access::principal::Principal).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HttpPeer {
    /// By TCP.
    Address(IpAddr),
    /// On the Unix socket.
    User(u32),
    /// On the Unix socket, where the kernel does not tell.
    Unknown,
}

impl HttpPeer {
    /// Whoever connects from `address`. One host can have all addresses of an IPv6 network of 64 bits.
    pub(super) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_peer_whatever_address_of_its_network_it_uses() {
        let peer = |text: &str| HttpPeer::at(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
