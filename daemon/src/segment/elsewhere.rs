//! What happens when the store turns out to be another database than the one that the remembered
//! ranges come from: they are given up, on disk before anything is leased from the new one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::service::{Segments, lock};
use crate::ids::{BizTag, RangeQueue};
use crate::state::database;
use crate::state::database::RecordedDatabase;
use crate::state::journal::TagRecord;
use crate::state::writer::Writer;
use crate::store::BoxFuture;
use crate::store::{DatabaseGuard, DatabaseRecorder, StoreError, UnusableDatabase, Witness};

/// Pause before a disk that refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Records in the state directory which database the ranges come from.
pub struct InState {
    /// Writes it.
    pub writer: Writer,
    /// Where the database is, as in the owner file.
    pub place: String,
}

impl DatabaseRecorder for InState {
    fn record(&self, recorded: RecordedDatabase) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.writer.database(database::write(&self.place, recorded)))
    }
}

/// Gives up what is left of remembered tags, in memory and on disk; says how much.
///
/// # Errors
/// When the disk refuses: then they must not be used.
pub async fn give_up(
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<u64, String> {
    let mut dropped = 0;
    for record in remembered.values_mut() {
        dropped += std::mem::take(&mut record.left).total();
        // Not leased again before somebody asks: that may move a row far ahead.
        record.used_s = 0;
    }
    writer.segments(remembered.iter().map(|(tag, r)| (tag.clone(), r.clone())).collect()).await?;
    Ok(dropped)
}

/// Tells people of it.
pub(crate) fn report_other(why: &UnusableDatabase, dropped: u64) {
    tracing::error!(
        dropped,
        "{why}; the IDs that were left are given up, and tags go on above the highest end that \
         this host has seen. Is store.url or store.path right?"
    );
}

impl Segments {
    /// A shared database is looked at when it is first reached, which may be long after the start.
    pub(super) async fn watch_database(self, guard: Arc<DatabaseGuard>) {
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                () = guard.other_found() => {}
            }
            let why = guard.unusable();
            let dropped = match self.give_up_ranges().await {
                Ok(dropped) => dropped,
                Err(error) => {
                    tracing::error!("ranges of another database cannot be given up: {error}");
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            if let Some(why) = why {
                report_other(&why, dropped);
            }
            if let Err(error) = guard.use_other().await {
                tracing::error!("cannot record which database this is: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn give_up_ranges(&self) -> Result<u64, String> {
        let tags: Vec<_> = lock(&self.0.tags).values().cloned().collect();
        let mut dropped = 0;
        let mut records = Vec::new();
        for tag in tags {
            let mut inner = tag.lock();
            let (had, record) = inner.segment.give_up_ranges();
            dropped += had;
            if record.floor > 0 {
                let left = RangeQueue::default();
                let used_s = inner.used_s;
                records.push((tag.name.clone(), TagRecord { floor: record.floor, used_s, left }));
            }
        }
        // Records that were gathered before are ahead of this one in the writer's queue.
        self.0.writer.segments(records).await?;
        Ok(dropped)
    }
}

/// The high-water mark of a new tag is on disk before its row is, so that a database that is lost
/// right after is not taken for an empty one.
impl Witness for Segments {
    fn begins_at<'a>(
        &'a self,
        tag: &'a BizTag,
        first: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let written = self.0.writer.high_water_marks(vec![(tag.clone(), first)]).await;
            written.map_err(|error| {
                StoreError::Busy(format!("the state directory cannot be written: {error}"))
            })
        })
    }
}
