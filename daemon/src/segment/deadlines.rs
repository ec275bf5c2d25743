//! Deadlines of the requests that wait: one timer per tag and none per request. Thousands of requests
//! may wait for one lease, and a task for each would keep the main thread busy and others waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::service::{Inner, Segments, Tag};
use super::watch::Watch;

impl Inner {
    /// A request waits until `deadline`.
    pub(super) fn watch(&mut self, deadline: Duration) -> Watch {
        self.watched_until.note(deadline)
    }

    /// Whether the watcher of a name that may be forgotten has nothing to watch any more. It must not
    /// keep the name in memory until a deadline that is of no interest.
    pub(super) fn is_watched_in_vain(&self) -> bool {
        self.watched_until.is_watched() && self.lane.is_some() && !self.segment.is_waited_for()
    }

    fn next_deadline(&mut self) -> Option<Duration> {
        self.watched_until.set(self.segment.next_deadline())
    }
}

impl Segments {
    /// Refuses requests for `tag` at their deadlines, until nobody waits.
    pub(super) async fn watch_deadlines(self, tag: Arc<Tag>) {
        loop {
            let Some(next) = tag.lock().next_deadline() else { return };
            tokio::select! {
                // The end refuses all that wait.
                () = self.0.stop.cancelled() => return,
                () = tag.deadlines_changed.notified() => continue,
                () = sleep_until(self.0.started + next) => {}
            }
            // Whoever can be served is not refused.
            self.attend(&tag);
            tag.lock().segment.expire(self.now());
            self.attend(&tag);
            tag.tell_if_abandoned();
        }
    }
}
