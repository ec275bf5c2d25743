//! What survives a restart on this host. One directory, one process: [`dir`] locks it and says
//! whether it is ours, [`journal`] holds the ranges above the durable ceiling of each tag,
//! [`worker_file`] the worker ID and the ceiling of its time, and [`writer`] is the one thread
//! that writes them. Nothing here decides what may be issued.

pub mod adopt;
mod advice;
pub mod database;
pub mod dir;
pub mod durable;
pub mod journal;
pub mod lease_log;
pub mod mark;
pub mod owner;
pub mod properties;
pub mod worker_file;
pub mod writer;
