//! Checkpoints that concurrent calls share: each call waits for a checkpoint that began after its own
//! commit, and one checkpoint covers all earlier commits.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// The checkpoints of one database.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    commits: AtomicU64,
    covered: Mutex<u64>,
}

/// The right to make the next checkpoint, for a commit that no checkpoint covers yet.
#[derive(Debug)]
pub(super) struct CheckpointTurn<'a> {
    all: &'a Checkpoints,
    covered: MutexGuard<'a, u64>,
}

impl Checkpoints {
    /// Call this after a commit. `None`: a checkpoint has covered the commit meanwhile.
    pub(super) async fn turn(&self) -> Option<CheckpointTurn<'_>> {
        let own = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let covered = self.covered.lock().await;
        (*covered < own).then_some(CheckpointTurn { all: self, covered })
    }
}

impl CheckpointTurn<'_> {
    /// How many commits a checkpoint will cover if it begins now.
    pub(super) fn covers(&self) -> u64 {
        self.all.commits.load(Ordering::SeqCst)
    }

    /// Call this after a complete checkpoint.
    pub(super) fn done(mut self, covers: u64) {
        *self.covered = covers.max(*self.covered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn concurrent_commits_share_a_checkpoint() {
        let checkpoints = Checkpoints::default();
        let runs = AtomicU64::new(0);
        let commit = async || {
            let Some(turn) = checkpoints.turn().await else { return };
            // The others commit while this one waits for the connection.
            tokio::task::yield_now().await;
            runs.fetch_add(1, Ordering::SeqCst);
            let covers = turn.covers();
            turn.done(covers);
        };
        tokio::join!(commit(), commit(), commit());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        commit().await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_checkpoint_that_a_reader_held_up_covers_nothing() {
        let checkpoints = Checkpoints::default();
        drop(checkpoints.turn().await.unwrap());
        let turn = checkpoints.turn().await.unwrap();
        assert_eq!(turn.covers(), 2);
    }
}
