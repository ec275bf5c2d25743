//! The rules of claiming: what a reading of the registry means, and the writes of each claim. Plain
//! functions; [`super::claimant`] says when.
//!
//! A worker ID and a stretch of time belong to one holder. It ends at the `limit` that the holder
//! last wrote; whoever takes the worker ID over without the holder's own state begins there. So no
//! clock has to be right for the two never to meet.

mod finding;
mod own;
mod report;
mod vacancy;

use super::name::NodeName;
use super::record::ClaimPhase;
use super::write::RegistryWrite;

pub(crate) use finding::{
    is_nobodys, is_torn, is_unclaimed, is_written_by_others, java_leafs, mine, rival, same_layout,
    twin, unclaimed,
};
pub(crate) use own::{
    can_create, claim_created, give_up, join, next_is_taken, put_back, remove_created, settle,
    take_again, without_live,
};
pub(crate) use report::{ClaimReport, give_back, release, report};
pub(crate) use vacancy::{SeenUnchanged, exhausted, reclaim, take_free, take_vacant};

/// A claim to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Together or not at all.
    pub(crate) ops: Vec<RegistryWrite>,
    /// The node, once they are written.
    pub(crate) name: NodeName,
    /// Its version then.
    pub(crate) leaf_version: i32,
    /// That of leafd's record.
    pub(crate) holder_version: i32,
    /// Whether it may be used at once.
    pub(crate) phase: ClaimPhase,
    /// From when on it may be used (ms since 1970).
    pub(crate) start_ms: u64,
    /// Its limit in the tree.
    pub(crate) limit_ms: u64,
}
