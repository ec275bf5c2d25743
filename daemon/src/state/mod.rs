//! What survives a restart on this host. One directory belongs to one process: `dir` locks it and says
//! whether it is this host's, `journal` holds the ranges above the durable ceiling of each tag,
//! `worker_file` the worker ID and the ceiling of its time, and `writer` is the one thread that
//! writes them. Nothing here decides what leafd may issue.

pub(crate) mod adopt;
mod advice;
pub(crate) mod database;
pub mod dir;
pub(crate) mod durable;
pub mod journal;
pub mod lease_log;
mod line;
pub mod mark;
pub(crate) mod owner;
pub mod properties;
pub(crate) mod rate_file;
pub mod worker_file;
pub(crate) mod write_tally;
pub mod writer;
