//! The end of the segments: every tag stops issuing, and the disk learns exactly what was not
//! issued.

use std::sync::Arc;
use std::time::Duration;

use super::service::{Segments, lock};

impl Segments {
    /// Waits up to `grace` for leases in flight, stops issuing, and writes what was not issued.
    ///
    /// # Errors
    /// If the disk refuses the write. Then the next start skips what was ready; it repeats nothing.
    pub(crate) async fn close(&self, grace: Duration) -> Result<(), String> {
        self.0.stop.cancel();
        self.0.tasks.close();
        // A lease that has not returned by then is lost, as in a crash.
        let _ = tokio::time::timeout(grace, self.0.tasks.wait()).await;
        let tags: Vec<_> = {
            let table = lock(&self.0.tags);
            let tags = table.tags().map(|tag| (Arc::clone(tag), 0));
            // What a lookup was made with is in the journal already, if it is of this name.
            let lookups = table.lookups().map(|tag| (Arc::clone(tag), table.mark(tag.name())));
            tags.chain(lookups).collect()
        };
        let records = tags.iter().filter_map(|(tag, known)| {
            let mut state = tag.lock();
            state.note_use(self.now(), self.unix_seconds());
            let record = state.buffer.close();
            let record = (record.high_water_mark > *known)
                .then(|| (tag.name().clone(), state.to_disk(record)));
            drop(state);
            self.attend(tag);
            record
        });
        let outcome = self.0.writer.last_segments(records.collect()).await;
        self.say_goodbye_to_witness().await;
        self.0.store.close().await;
        outcome
    }
}
