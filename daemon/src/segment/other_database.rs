//! What to do if the store turns out to be another database than the one that the remembered ranges
//! come from: drop the ranges, on disk before leasing anything from the new database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::service::{Segments, lock};
use crate::environment::Environment;
use crate::ids::BizTag;
use crate::state::database;
use crate::state::database::RecordedDatabase;
use crate::state::journal::TagRecord;
use crate::state::writer::Writer;
use crate::store::BoxFuture;
use crate::store::witness::keeper::WitnessRecorder;
use crate::store::witness::memory::WitnessMemory;
use crate::store::{DatabaseGuard, DatabaseRecorder, StoreError, UnusableDatabase, Witness};

/// Pause before retrying a write that the disk refused.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Records in the state directory which database the ranges come from.
pub(crate) struct StateDirRecorder {
    pub(crate) writer: Writer,
    /// Where the database is, as the owner file names it.
    pub(crate) place: String,
    pub(crate) environment: Environment,
}

impl DatabaseRecorder for StateDirRecorder {
    fn record(&self, recorded: RecordedDatabase) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.writer.database(database::write(&self.place, recorded)))
    }
}

impl WitnessRecorder for StateDirRecorder {
    fn record(&self, memory: WitnessMemory, database: String) -> BoxFuture<'_, Result<(), String>> {
        let now_s = self.environment.unix_ms() / 1000;
        Box::pin(self.writer.witness(move |file| memory.write(&database, now_s, file)))
    }
}

/// Drops the ranges of remembered tags, in memory and on disk. Returns how many IDs that are.
///
/// # Errors
/// If the disk refuses the write. Then the tags must not be used.
pub(crate) async fn drop_ranges(
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<u64, String> {
    let mut dropped = 0;
    for record in remembered.values_mut() {
        dropped += std::mem::take(&mut record.left).total();
        // Do not lease before the first request: a lease may move a row far ahead.
        record.used_s = 0;
    }
    writer.segments(remembered.iter().map(|(tag, r)| (tag.clone(), r.clone())).collect()).await?;
    Ok(dropped)
}

pub(crate) fn report_other_database(why: &UnusableDatabase, dropped: u64) {
    tracing::error!(
        dropped,
        "{why}; leafd dropped the IDs that were left, and tags go on above the highest end that \
         this host has seen. Is store.url or store.path right?"
    );
}

impl Segments {
    /// Waits for the guard to find another database. A shared one is first reached, and checked,
    /// maybe long after the start.
    pub(super) async fn watch_database(self, guard: Arc<DatabaseGuard>) {
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                () = guard.other_found() => {}
            }
            let why = guard.unusable();
            let dropped = match self.drop_all_ranges().await {
                Ok(dropped) => dropped,
                Err(error) => {
                    tracing::error!("cannot drop the ranges of another database: {error}");
                    tokio::time::sleep(RETRY_AFTER).await;
                    continue;
                }
            };
            if let Some(why) = why {
                report_other_database(&why, dropped);
            }
            if let Err(error) = guard.use_other().await {
                tracing::error!("cannot record which database this is: {error}");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    async fn drop_all_ranges(&self) -> Result<u64, String> {
        let tags: Vec<_> = lock(&self.0.tags).tags().cloned().collect();
        let mut dropped = 0;
        let mut records = Vec::new();
        for tag in tags {
            let mut state = tag.lock();
            let (of_tag, record) = state.buffer.drop_ranges();
            dropped += of_tag;
            if record.high_water_mark > 0 {
                records.push((tag.name().clone(), state.to_disk(record)));
            }
        }
        // Records that were gathered earlier are ahead of this one in the writer's queue.
        self.0.writer.segments(records).await?;
        Ok(dropped)
    }
}

/// Writes the high-water mark of a new tag before the tag's row, so that a database that is lost
/// right after is not mistaken for an empty one.
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
