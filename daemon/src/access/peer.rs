//! Who has connected, as the kernel noted it when they did: user, group, and the other groups.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

/// The credentials of the process that connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// The other groups; none when the kernel does not tell them.
    pub others: Option<Vec<u32>>,
}

impl Peer {
    /// Asks the kernel for the credentials of who is connected to `socket`.
    ///
    /// # Errors
    /// When it does not tell; nothing may be assumed of them then.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let others = match supplementary(socket) {
            Ok(groups) => Some(groups),
            // Kernels that are none, as gVisor's, may lack it.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { uid: credentials.uid(), gid: credentials.gid(), others })
    }

    /// The user who is connected to `socket`, if the kernel tells.
    #[must_use]
    pub fn uid_of(socket: BorrowedFd<'_>) -> Option<u32> {
        getsockopt(&socket, PeerCredentials).ok().map(|credentials| credentials.uid())
    }

    /// Whether it is known to be in one of `groups`.
    pub(super) fn is_in(&self, groups: &[u32]) -> bool {
        let others = self.others.iter().flatten();
        std::iter::once(&self.gid).chain(others).any(|group| groups.contains(group))
    }
}

/// A process may have this many groups on Linux (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

/// `SO_PEERGROUPS`, since Linux 4.13, for which nix has no name.
fn supplementary(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let bytes = groups.len() * size_of::<libc::gid_t>();
        let mut len = libc::socklen_t::try_from(bytes).map_err(io::Error::other)?;
        match ask(socket, &mut groups, &mut len) {
            Ok(()) => {
                groups.truncate(len as usize / size_of::<libc::gid_t>());
                return Ok(groups);
            }
            // They do not fit; it has said how many there are.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
                let wanted = len as usize / size_of::<libc::gid_t>();
                if wanted <= groups.len() || wanted > MOST_GROUPS {
                    return Err(error);
                }
                groups.resize(wanted, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

#[expect(unsafe_code, reason = "no crate has this option; see the comment on safety")]
fn ask(
    socket: BorrowedFd<'_>,
    groups: &mut [libc::gid_t],
    len: &mut libc::socklen_t,
) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, `groups` may be written to for `len`
    // bytes, which is its size, and any bytes are valid group IDs.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            len,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use nix::unistd::{getegid, geteuid, getgroups};

    use super::*;

    #[test]
    fn the_kernel_tells_user_and_all_groups() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(ours.as_fd()).unwrap();
        assert_eq!(peer.uid, geteuid().as_raw());
        assert_eq!(peer.gid, getegid().as_raw());
        assert!(peer.is_in(&[getegid().as_raw()]));
        let groups: Vec<_> = getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer.others, Some(groups));
    }

    #[test]
    fn of_what_is_no_unix_socket_nothing_is_assumed() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(supplementary(tcp.as_fd()).is_err());
    }
}
