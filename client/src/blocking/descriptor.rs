//! Which descriptor a connection has, so that the child of a fork can close its copy of a connection
//! that belongs to another thread of its parent.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fork::ProcessMark;

/// The descriptor of a connection, the process that opened it, and the number of its socket.
#[derive(Debug, Default)]
pub(crate) struct Descriptor {
    /// Process and descriptor in one number, so that a thread which is about to close a parent's
    /// descriptor never takes one of its own process for it. 0: none.
    noted: AtomicU64,
    /// The inode number, which no other open socket has. A fork copies descriptors and memory at
    /// slightly different moments, so the descriptor alone could be another file's in the child.
    socket: AtomicU64,
}

impl Descriptor {
    /// Closes this process's copy of a parent's connection, if it still is that connection. The thread
    /// that owns it does not exist here.
    pub(crate) fn close_inherited(&self) {
        let noted = self.noted.load(Ordering::Acquire);
        let socket = self.socket.load(Ordering::Relaxed);
        if noted == 0 || noted >> 32 == process() {
            return;
        }
        if self.noted.compare_exchange(noted, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && let Ok(descriptor) = i32::try_from(noted & u64::from(u32::MAX))
        {
            close_if(descriptor, socket);
        }
    }
}

/// This process's number, as far as it fits beside a descriptor. Children count on from their parent's.
fn process() -> u64 {
    ProcessMark::current().number() & u64::from(u32::MAX)
}

/// Notes the descriptor of a connection for as long as it lives. Has to be dropped before the
/// connection: the note must not outlive the descriptor.
#[derive(Debug)]
pub(super) struct NotedDescriptor(Option<Arc<Descriptor>>);

impl NotedDescriptor {
    pub(super) fn of(socket: &impl AsFd, place: Option<&Arc<Descriptor>>) -> Self {
        let socket = socket.as_fd();
        if let Some(place) = place
            && let Ok(stat) = rustix::fs::fstat(socket)
            && let Ok(descriptor) = u32::try_from(socket.as_raw_fd())
        {
            place.socket.store(stat.st_ino, Ordering::Relaxed);
            place.noted.store(process() << 32 | u64::from(descriptor), Ordering::Release);
        }
        Self(place.cloned())
    }
}

impl Drop for NotedDescriptor {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            place.noted.store(0, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing_fork::in_child;
    use std::os::unix::net::UnixStream;

    /// Whether the descriptor is the one that was noted, still open.
    fn is_open(descriptor: i32, inode: u64) -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(format!("/proc/self/fd/{descriptor}"))
            .is_ok_and(|file| file.ino() == inode)
    }

    #[test]
    fn a_child_closes_its_copy_once_and_a_process_never_closes_its_own() {
        let (mine, other) = UnixStream::pair().unwrap();
        let (descriptor, place) = (mine.as_raw_fd(), Arc::<Descriptor>::default());
        let note = NotedDescriptor::of(&mine, Some(&place));
        let inode = place.socket.load(Ordering::Relaxed);
        place.close_inherited();
        assert!(is_open(descriptor, inode));
        let open_in_child = in_child(|| {
            place.close_inherited();
            let open = is_open(descriptor, inode);
            // Another file with the same number is not touched.
            let mut files = Vec::new();
            while files.last().is_none_or(|file: &std::fs::File| file.as_raw_fd() < descriptor) {
                files.push(std::fs::File::open("/dev/null").unwrap());
            }
            place.close_inherited();
            assert!(files.iter().any(|file| file.as_raw_fd() == descriptor));
            assert!(std::fs::metadata(format!("/proc/self/fd/{descriptor}")).is_ok());
            u64::from(open)
        });
        assert_eq!(open_in_child, 0);
        assert!(is_open(descriptor, inode));
        drop((note, other));
        assert_eq!(place.noted.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_descriptor_that_is_another_file_by_now_is_left_open() {
        let (mine, _other) = UnixStream::pair().unwrap();
        let place = Arc::<Descriptor>::default();
        let _note = NotedDescriptor::of(&mine, Some(&place));
        place.socket.fetch_add(1, Ordering::Relaxed);
        let open = in_child(|| {
            place.close_inherited();
            let path = format!("/proc/self/fd/{}", mine.as_raw_fd());
            u64::from(std::fs::metadata(path).is_ok())
        });
        assert_eq!(open, 1);
    }
}
