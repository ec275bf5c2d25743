//! What writes to the state directory cost, for the metrics.

use crate::tally::{Count, DurationHistogram};

/// A file that requests depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateFile {
    /// The journal of the ranges.
    Segments,
    Worker,
    Database,
    Witness,
}

impl StateFile {
    pub(crate) const ALL: [Self; 4] = [Self::Segments, Self::Worker, Self::Database, Self::Witness];

    /// The value of the label `file`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Worker => "worker",
            Self::Database => "database",
            Self::Witness => "witness",
        }
    }
}

/// The writes of one file since the start.
#[derive(Debug, Default)]
pub(crate) struct FileWrites {
    /// Every write, with its sync, whether it succeeded or not.
    pub(crate) seconds: DurationHistogram,
    pub(crate) failed: Count,
}

/// The writes of all files since the start.
#[derive(Debug, Default)]
pub(crate) struct WriteTally {
    segments: FileWrites,
    worker: FileWrites,
    database: FileWrites,
    witness: FileWrites,
}

impl WriteTally {
    pub(crate) const fn of(&self, file: StateFile) -> &FileWrites {
        match file {
            StateFile::Segments => &self.segments,
            StateFile::Worker => &self.worker,
            StateFile::Database => &self.database,
            StateFile::Witness => &self.witness,
        }
    }
}
