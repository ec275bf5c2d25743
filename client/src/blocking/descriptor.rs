//! Which descriptor a connection has, so that the child of a fork can close its copy of a connection
//! that belongs to another thread of its parent.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const NONE: i32 = -1;

/// The descriptor of a connection, and the number of its socket.
#[derive(Debug)]
pub(crate) struct Descriptor {
    descriptor: AtomicI32,
    /// The number that no other open socket has. A fork copies descriptors and memory at slightly
    /// different moments, so the descriptor alone could be another file's in the child.
    socket: AtomicU64,
}

impl Default for Descriptor {
    fn default() -> Self {
        Self { descriptor: AtomicI32::new(NONE), socket: AtomicU64::new(0) }
    }
}

impl Descriptor {
    /// Closes this process's copy of the connection, if it still is that connection. Call it in a child
    /// only, where the owner's thread does not exist.
    pub(crate) fn close_inherited(&self) {
        let descriptor = self.descriptor.swap(NONE, Ordering::AcqRel);
        if descriptor != NONE {
            close_if(descriptor, self.socket.load(Ordering::Relaxed));
        }
    }
}

/// Notes the descriptor of a connection for as long as it lives. Has to be dropped before the
/// connection: the note must not outlive the descriptor.
#[derive(Debug)]
pub(super) struct NotedDescriptor(Option<Arc<Descriptor>>);

impl NotedDescriptor {
    pub(super) fn of(stream: &UnixStream, place: Option<&Arc<Descriptor>>) -> Self {
        if let Some(place) = place
            && let Ok(stat) = rustix::fs::fstat(stream.as_fd())
        {
            place.socket.store(stat.st_ino, Ordering::Relaxed);
            place.descriptor.store(stream.as_raw_fd(), Ordering::Release);
        }
        Self(place.cloned())
    }
}

impl Drop for NotedDescriptor {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            place.descriptor.store(NONE, Ordering::Release);
        }
    }
}

#[expect(unsafe_code, reason = "closing a descriptor whose owner does not exist in this process")]
fn close_if(descriptor: i32, socket: u64) {
    use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
    // SAFETY: the descriptor is only looked at; if it is not open, that fails.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(descriptor) });
    if stat.is_ok_and(|stat| stat.st_ino == socket && is_socket(stat.st_mode)) {
        // SAFETY: it is the connection of a thread that this process does not have, so nobody else
        // closes it.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

fn is_socket(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Socket
}
