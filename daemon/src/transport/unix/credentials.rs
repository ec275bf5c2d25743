//! Identifies the caller: its user, group and supplementary groups, as the kernel recorded them when
//! it connected.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use crate::access::principal::LocalUser;

/// The user that is connected to `socket`.
///
/// # Errors
/// When the kernel does not tell. The caller must then be refused.
pub(crate) fn user_of(socket: BorrowedFd<'_>) -> io::Result<LocalUser> {
    let credentials = getsockopt(&socket, PeerCredentials)?;
    let others = match supplementary(socket) {
        Ok(groups) => Some(groups),
        // Some kernels do not have the option; gVisor's does not.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
        Err(error) => return Err(error),
    };
    Ok(LocalUser { uid: credentials.uid(), gid: credentials.gid(), others, transport: "unix" })
}

/// The user that is connected to `socket`, if the kernel tells.
pub(super) fn uid_of(socket: BorrowedFd<'_>) -> Option<u32> {
    getsockopt(&socket, PeerCredentials).ok().map(|credentials| credentials.uid())
}

/// The most groups that a process can have on Linux (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

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
            // They do not fit, and `len` now says how many bytes they need.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
                let wanted = len as usize / size_of::<libc::gid_t>();
                if wanted <= groups.len() || wanted > MAX_GROUPS {
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
    // SAFETY: the descriptor is open while it is borrowed; `groups` is writable for `len` bytes, its
    // size; and any bytes are valid group IDs.
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
    fn the_kernel_tells_the_user_and_all_groups() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let user = user_of(ours.as_fd()).unwrap();
        assert_eq!(user.uid, geteuid().as_raw());
        assert_eq!(user.gid, getegid().as_raw());
        let groups: Vec<_> = getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        assert_eq!(user.others, Some(groups));
    }

    #[test]
    fn a_socket_without_credentials_is_an_error() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(supplementary(tcp.as_fd()).is_err());
    }
}
