//! Recognising a restored or copied directory: it, its owner file, its journal and the mark beside the
//! journal record the inode number and birth time of what leafd wrote, which no copy has. The worker
//! file is judged by itself.

use super::StateDir;
use super::error::StateError;
use crate::state::advice::Advice;
use crate::state::journal::{self, JournalReading};
use crate::state::mark::{FileMark, Inodes};
use crate::state::owner::{self, OwnerFile};

/// What a file says, and which file it is.
#[derive(Debug)]
pub(in crate::state) struct MarkedFile<C> {
    pub(in crate::state) content: C,
    pub(in crate::state) mark: FileMark,
}

/// What shows that a directory or file is not the one that leafd wrote.
#[derive(Debug)]
pub(in crate::state) struct CopySign {
    what: String,
    /// Only the inode number differs; the birth time agrees or is unknown.
    by_inode_alone: bool,
}

impl CopySign {
    /// Compares the mark of what leafd wrote with the mark of what is there.
    pub(super) fn find(
        name: &str,
        written: Option<FileMark>,
        found: FileMark,
        inodes: Inodes,
    ) -> Option<Self> {
        let written = written.filter(|written| written.differs_by(found, inodes))?;
        let (was, is) = (written.write(), found.write());
        Some(Self {
            what: format!("{name} was {was} when it was written and is {is} (inode@birth time)"),
            by_inode_alone: !written.differs_by(found, Inodes::Unstable),
        })
    }
}

impl std::fmt::Display for CopySign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl StateDir {
    /// Looks for a sign that the directory is not the one that leafd wrote.
    pub(in crate::state) fn copied(
        &self,
        owner: Option<&MarkedFile<OwnerFile>>,
        journal: Option<&MarkedFile<Vec<u8>>>,
    ) -> Result<Option<CopySign>, StateError> {
        let own = self.mark()?;
        if let Some(MarkedFile { content, mark }) = owner {
            // Version 0.1.0 wrote no marks into files and did not look at inode numbers, so nobody
            // knows whether the file system keeps them. An upgrade must not fail for that reason.
            let has_times = own.has_time() && content.directory.is_some_and(FileMark::has_time);
            let inodes = match content.file {
                None if has_times => Inodes::Unstable,
                _ => self.inodes,
            };
            let directory = CopySign::find("the directory", content.directory, own, inodes);
            let file = CopySign::find(owner::FILE, content.file, *mark, self.inodes);
            if let Some(copied) = directory.or(file) {
                return Ok(Some(copied));
            }
        }
        let of_journal =
            journal.and_then(|MarkedFile { content, mark }| match journal::read(content) {
                JournalReading::Whole { file, .. } => {
                    CopySign::find(journal::FILE, file, *mark, self.inodes)
                }
                JournalReading::Damaged { .. } => None,
            });
        if of_journal.is_some() {
            return Ok(of_journal);
        }
        // leafd does not sync this file, so one that is empty or cut off means nothing.
        Ok(self.read_marked(journal::MARK_FILE)?.and_then(|MarkedFile { content, mark }| {
            let written = std::str::from_utf8(&content).ok()?.split_once('\n')?.0;
            CopySign::find(journal::MARK_FILE, FileMark::read(written), mark, self.inodes)
        }))
    }

    pub(in crate::state) fn refuse_copy(
        &self,
        copied: &CopySign,
        journal: Option<&MarkedFile<Vec<u8>>>,
    ) -> StateError {
        let floors = journal.map(|journal| journal::read(&journal.content).into_floors().0);
        let advice = Advice::new(&floors.unwrap_or_default(), copied.by_inode_alone);
        let (path, what) = (self.path.clone(), copied.what.clone());
        StateError::Copied { path, what, advice: Box::new(advice) }
    }
}
