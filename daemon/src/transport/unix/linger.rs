//! The end of a connection that was refused. A client that writes its hello before it reads would
//! lose the error if leafd closed at once: the write fails, and many libraries then read no more.
//! So leafd keeps the socket for a moment and discards what arrives, within bounds that a flood
//! cannot stretch. Beyond them it closes at once.

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

/// Connections that linger at once. Each has a descriptor.
pub(crate) const MAX_LINGERING: usize = 256;

/// Of these, how many may be one user's.
const MAX_OF_USER: usize = 8;

/// How long one lingers.
const LINGER: Duration = Duration::from_millis(250);

/// How much of what arrives is discarded.
const DISCARDED: usize = 4 * 1024;

/// The connections that linger.
#[derive(Debug)]
pub(super) struct Lingering {
    /// Whose they are. None: the kernel does not tell, which counts as one user.
    users: Arc<Mutex<Vec<Option<u32>>>>,
    /// Not the thread that serves.
    background: Handle,
}

impl Lingering {
    /// Where connections linger on `background`, a runtime with timers.
    pub(super) fn new(background: Handle) -> Self {
        Self { users: Arc::default(), background }
    }

    /// Ends a non-blocking connection that has been told why.
    pub(super) fn end(&self, stream: UnixStream) {
        let user = uid_of(stream.as_fd());
        if let Some(place) = Place::take(&self.users, user)
            && stream.shutdown(Shutdown::Write).is_ok()
        {
            self.background.spawn(async move {
                // Whatever ends it, the connection ends.
                let _ = timeout(LINGER, discard(stream)).await;
                drop(place);
            });
        }
    }
}

/// Reads until the client hangs up or has sent enough.
async fn discard(stream: UnixStream) -> io::Result<()> {
    let stream = watched(stream, Interest::READABLE)?;
    let mut buffer = [0; 512];
    let mut left = DISCARDED;
    while left > 0 {
        let most = left.min(buffer.len());
        let into = buffer.get_mut(..most).unwrap_or_default();
        match stream.async_io(Interest::READABLE, |mut stream| stream.read(into)).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// Counts a connection as long as it lingers.
struct Place {
    users: Arc<Mutex<Vec<Option<u32>>>>,
    user: Option<u32>,
}

impl Place {
    fn take(users: &Arc<Mutex<Vec<Option<u32>>>>, user: Option<u32>) -> Option<Self> {
        let mut all = lock(users);
        let own = all.iter().filter(|other| **other == user).count();
        if own >= MAX_OF_USER || all.len() >= MAX_LINGERING {
            return None;
        }
        all.push(user);
        drop(all);
        Some(Self { users: Arc::clone(users), user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = lock(&self.users);
        if let Some(at) = all.iter().position(|user| *user == self.user) {
            all.swap_remove(at);
        }
    }
}

fn lock(users: &Mutex<Vec<Option<u32>>>) -> MutexGuard<'_, Vec<Option<u32>>> {
    // Nothing in here panics half way.
    users.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_few_places_all_users_have_a_bounded_number_and_each_comes_back() {
        let users = Arc::default();
        let of_one: Vec<_> = std::iter::from_fn(|| Place::take(&users, Some(7))).collect();
        assert_eq!(of_one.len(), MAX_OF_USER);
        let of_all: Vec<_> =
            (1000..2000).filter_map(|uid| Place::take(&users, Some(uid))).collect();
        assert_eq!(of_one.len() + of_all.len(), MAX_LINGERING);
        assert!(Place::take(&users, None).is_none());
        drop((of_one, of_all));
        assert!(Place::take(&users, Some(7)).is_some());
        assert!(lock(&users).is_empty());
    }

    #[tokio::test]
    async fn what_arrives_is_discarded_until_the_client_hangs_up_or_has_sent_enough() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let lingering = Lingering::new(Handle::current());
        lingering.end(ours);
        // The client finds its write accepted and the end of what it can read.
        std::io::Write::write_all(&mut theirs, b"hello").unwrap();
        assert_eq!(theirs.read(&mut [0; 8]).unwrap(), 0);
        drop(theirs);
        while !lock(&lingering.users).is_empty() {
            tokio::task::yield_now().await;
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        std::io::Write::write_all(&mut &theirs, &[0; DISCARDED]).unwrap();
        discard(ours).await.unwrap();
        assert!(std::io::Write::write(&mut &theirs, &[0]).is_err(), "it is closed");
    }
}
