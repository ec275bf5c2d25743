//! The text that tells an operator how to find out which IDs may have been issued.

use std::collections::HashMap;
use std::fmt;

use crate::ids::BizTag;

/// The most tags that an error names.
const NAMED: usize = 8;

/// How to go on when this host does not know what was issued.
#[derive(Debug)]
pub(crate) struct Advice {
    /// The highest ID of each tag in the journal, the highest first.
    known: Vec<(BizTag, u64)>,
    /// Only an inode number differs, and this file system may change those by itself.
    may_be_renumbered: bool,
}

impl Advice {
    pub(super) fn new(floors: &HashMap<BizTag, u64>, may_be_renumbered: bool) -> Self {
        let highest = |(tag, floor): (&BizTag, &u64)| (tag.clone(), floor.saturating_sub(1));
        let mut known: Vec<_> = floors.iter().map(highest).collect();
        known.sort_unstable_by(|(one, a), (other, b)| {
            b.cmp(a).then_with(|| one.as_str().cmp(other.as_str()))
        });
        Self { known, may_be_renumbered }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "Find the highest ID of each tag in the tables of the applications, add a margin for \
             what is not stored yet, and run `leafd adopt --above N` with a number that no tag has \
             passed, or with `--above TAG=N` for each tag; IDs then begin above it",
        )?;
        if let Some((_, highest)) = self.known.first() {
            write!(f, ". The journal here knows of IDs up to {highest} (")?;
            for (nth, (tag, highest)) in self.known.iter().take(NAMED).enumerate() {
                write!(f, "{}{tag} {highest}", if nth > 0 { ", " } else { "" })?;
            }
            if self.known.len() > NAMED {
                write!(f, ", and {} more tags", self.known.len() - NAMED)?;
            }
            write!(
                f,
                "): if it was copied after leafd had stopped, and nothing was issued since, \
                 `leafd adopt --above {highest}` is right"
            )?;
        }
        if self.may_be_renumbered {
            f.write_str(
                ". If nobody has restored or copied anything, this file system changes inode \
                 numbers by itself: set state.unstable-inodes = true",
            )?;
        }
        Ok(())
    }
}
