//! What the servers of all kinds have in common that tests start for themselves: a folder that goes
//! with them, a process that is frozen and killed, and ports that nobody takes meanwhile.

mod home;
mod port;
mod process;

use std::time::Duration;

pub use home::processes_in;
pub(crate) use home::{Home, copy_folder};
pub(crate) use port::Port;
pub(crate) use process::Process;

/// How long anything may take before a test gives up. No test measures time by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
