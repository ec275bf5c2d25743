//! What the pool reports from its refill thread, and the end of that thread.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use leaf_client::pool::PoolEvent;

use super::trouble::ErrorTally;

/// How long after the timeout of a request the refill thread may need to end.
const GRACE: Duration = Duration::from_secs(1);

/// The outages of a run.
#[derive(Debug)]
pub(super) struct Outages {
    events: Receiver<PoolEvent>,
    /// Why each of them began.
    pub(super) errors: ErrorTally,
    pub(super) longest: Duration,
}

/// A listener for a pool, and where to read what it hears.
pub(super) fn channel() -> (impl Fn(&PoolEvent) + Send + Sync + 'static, Outages) {
    let (sender, events): (Sender<PoolEvent>, _) = mpsc::channel();
    // If nobody listens any more, the run is over.
    let listener = move |event: &PoolEvent| drop(sender.send(event.clone()));
    (listener, Outages { events, errors: ErrorTally::default(), longest: Duration::ZERO })
}

impl Outages {
    /// Waits until the pool has ended, after its last handle was dropped: the refill thread owns the
    /// listener, so the channel closes when that thread is gone. An answer that is late ends the wait.
    pub(super) fn wait_for_end(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout.saturating_add(GRACE);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => self.add(&event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn add(&mut self, event: &PoolEvent) {
        match event {
            PoolEvent::OutageBegan { error, .. } => self.errors.add(error),
            PoolEvent::OutageEnded { after } => self.longest = self.longest.max(*after),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leaf_client::Error;
    use leaf_client::wire::{ErrorCode, WireError};

    #[test]
    fn outages_are_counted_until_the_pool_has_ended() {
        let (listener, mut outages) = channel();
        let pool = std::thread::spawn(move || {
            for ms in [20, 70, 30] {
                let error = Error::Refused(WireError::new(ErrorCode::StoreUnavailable, "away"));
                listener(&PoolEvent::OutageBegan { error, held: 5 });
                listener(&PoolEvent::OutageEnded { after: Duration::from_millis(ms) });
            }
        });
        outages.wait_for_end(Duration::from_secs(600));
        pool.join().unwrap();
        assert_eq!((outages.errors.total(), outages.longest), (3, Duration::from_millis(70)));
    }

    #[test]
    fn a_pool_that_does_not_end_is_not_waited_for_for_ever() {
        let (_listener, mut outages) = channel();
        outages.wait_for_end(Duration::ZERO);
    }
}
