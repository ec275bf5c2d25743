//! What `leafctl doctor` checks: a pure core, from facts to findings. Collecting the facts is the work
//! of `app/doctor`. No file, socket or clock enters this room.

mod checks;
pub(crate) mod facts;
mod finding;
pub(crate) mod mounts;

pub use checks::examine;
pub use facts::{DaemonFacts, Facts};
pub use finding::{Check, Finding, Level};
