//! Refuses waiting requests at their deadlines: one timer per tag and none per request. Thousands
//! of requests may wait for one lease; a task for each would keep the main thread busy and others
//! waiting.

use std::sync::Arc;

use tokio::time::sleep_until;

use super::service::Segments;
use super::tag::Tag;

impl Segments {
    /// Refuses requests for `tag` at their deadlines, until none waits.
    pub(super) async fn watch_deadlines(self, tag: Arc<Tag>) {
        loop {
            let Some(next) = tag.lock().next_deadline() else { return };
            tokio::select! {
                // Closing refuses all that wait.
                () = self.0.stop.cancelled() => return,
                () = tag.deadlines_changed.notified() => continue,
                () = sleep_until(self.0.started + next) => {}
            }
            // A request that can be served now is not refused.
            self.attend(&tag);
            tag.lock().buffer.expire(self.now());
            self.attend(&tag);
            tag.note_if_abandoned();
        }
    }
}
