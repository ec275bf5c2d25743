//! Closes connections that were refused. A client that writes its hello before it reads would lose
//! the error if leafd closed at once: the write fails, and many libraries then stop reading. So leafd
//! keeps the socket open for a moment and discards what arrives. At the limits below it closes at
//! once, so a flood of such connections costs little.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::credentials::uid_of;
use super::watched::watched;

/// Connections that may linger at once. Each takes a descriptor.
pub(crate) const MAX_LINGERING: usize = 256;

/// Connections of one user that may linger at once.
const MAX_PER_USER: usize = 8;

/// How long a connection lingers.
const LINGER: Duration = Duration::from_millis(250);

/// After discarding this many bytes, leafd closes the connection.
const MAX_DISCARDED: usize = 4 * 1024;

/// The connections that linger.
#[derive(Debug)]
pub(super) struct Lingering {
    /// The user of each. Those whose user the kernel does not tell (None) count as one user's.
    users: Arc<Mutex<Vec<Option<u32>>>>,
    /// A runtime with timers. The thread that serves has none.
    background: Handle,
}

impl Lingering {
    /// Connections linger on `background`, a runtime with timers.
    pub(super) fn new(background: Handle) -> Self {
        Self { users: Arc::default(), background }
    }

    /// Closes a non-blocking connection to which an error was written.
    pub(super) fn end(&self, stream: UnixStream) {
        let user = uid_of(stream.as_fd());
        if let Some(slot) = LingerSlot::take(&self.users, user)
            && stream.shutdown(Shutdown::Write).is_ok()
        {
            self.background.spawn(async move {
                // `discard` drops the stream, however it ends.
                let _ = timeout(LINGER, discard(stream)).await;
                drop(slot);
            });
        }
    }
}

/// Reads until the client hangs up or has sent enough.
async fn discard(stream: UnixStream) -> io::Result<()> {
    let stream = watched(stream, Interest::READABLE)?;
    let mut buffer = [0; 512];
    let mut left = MAX_DISCARDED;
    while left > 0 {
        let limit = left.min(buffer.len());
        let into = buffer.get_mut(..limit).unwrap_or_default();
        match stream.async_io(Interest::READABLE, |mut stream| stream.read(into)).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// Counts a connection while it lingers.
struct LingerSlot {
    users: Arc<Mutex<Vec<Option<u32>>>>,
    user: Option<u32>,
}

impl LingerSlot {
    fn take(users: &Arc<Mutex<Vec<Option<u32>>>>, user: Option<u32>) -> Option<Self> {
        let mut all = lock(users);
        let own = all.iter().filter(|other| **other == user).count();
        if own >= MAX_PER_USER || all.len() >= MAX_LINGERING {
            return None;
        }
        all.push(user);
        drop(all);
        Some(Self { users: Arc::clone(users), user })
    }
}

impl Drop for LingerSlot {
    fn drop(&mut self) {
        let mut all = lock(&self.users);
        if let Some(at) = all.iter().position(|user| *user == self.user) {
            all.swap_remove(at);
        }
    }
}

fn lock(users: &Mutex<Vec<Option<u32>>>) -> MutexGuard<'_, Vec<Option<u32>>> {
    // No panic leaves the list half changed.
    users.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_per_user_and_in_total_and_are_freed() {
        let users = Arc::default();
        let of_one: Vec<_> = std::iter::from_fn(|| LingerSlot::take(&users, Some(7))).collect();
        assert_eq!(of_one.len(), MAX_PER_USER);
        let of_all: Vec<_> =
            (1000..2000).filter_map(|uid| LingerSlot::take(&users, Some(uid))).collect();
        assert_eq!(of_one.len() + of_all.len(), MAX_LINGERING);
        assert!(LingerSlot::take(&users, None).is_none());
        drop((of_one, of_all));
        assert!(LingerSlot::take(&users, Some(7)).is_some());
        assert!(lock(&users).is_empty());
    }

    #[tokio::test]
    async fn input_is_discarded_until_the_client_hangs_up_or_has_sent_too_much() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let lingering = Lingering::new(Handle::current());
        lingering.end(ours);
        // The client can still write, and then reads the end of its input.
        std::io::Write::write_all(&mut theirs, b"hello").unwrap();
        assert_eq!(theirs.read(&mut [0; 8]).unwrap(), 0);
        drop(theirs);
        while !lock(&lingering.users).is_empty() {
            tokio::task::yield_now().await;
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        std::io::Write::write_all(&mut &theirs, &[0; MAX_DISCARDED]).unwrap();
        discard(ours).await.unwrap();
        assert!(std::io::Write::write(&mut &theirs, &[0]).is_err(), "it is closed");
    }
}
