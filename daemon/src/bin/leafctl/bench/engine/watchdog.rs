//! Ends a blocking read that gets no answer. A timeout on the socket would do the same, but costs a
//! timer with every read, which would show in the measured latency.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Watches one connection until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    signs_of_life: Arc<AtomicU64>,
    /// Dropping it wakes the thread.
    _done: Sender<()>,
}

impl Watchdog {
    /// Shuts `stream` down if there is no [`Watchdog::pet`] for `patience`, which it notices within
    /// twice that time.
    pub(super) fn watch(stream: &UnixStream, patience: Duration) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        let signs_of_life = Arc::new(AtomicU64::new(0));
        let (done, ended) = channel();
        let signs = Arc::clone(&signs_of_life);
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut seen = signs.load(Ordering::Relaxed);
            while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let signs = signs.load(Ordering::Relaxed);
                if signs == seen {
                    // If this fails, the connection is gone already.
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
                seen = signs;
            }
        })?;
        Ok(Self { signs_of_life, _done: done })
    }

    /// Records that the connection is alive.
    #[inline]
    pub(super) fn pet(&self) {
        // There is only one writer, so this needs no atomic addition.
        let signs = self.signs_of_life.load(Ordering::Relaxed);
        self.signs_of_life.store(signs.wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_watchdog_ends_a_read_that_gets_no_answer() {
        let (mut stream, _silent) = UnixStream::pair().unwrap();
        let _watchdog = Watchdog::watch(&stream, Duration::from_millis(20)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_connection_outlives_its_watchdog() {
        let (mut stream, mut peer) = UnixStream::pair().unwrap();
        let watchdog = Watchdog::watch(&stream, Duration::from_secs(3600)).unwrap();
        watchdog.pet();
        drop(watchdog);
        io::Write::write_all(&mut peer, b"x").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    }
}
