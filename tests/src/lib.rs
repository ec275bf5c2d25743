//! The harness: starts real daemons in folders of their own, kills them, steps their clocks, and
//! keeps every ID that anybody received.

pub mod binaries;
pub mod daemon;
pub mod faketime;
pub mod load;
pub mod raw;
pub mod seen;
pub mod watch;

pub use daemon::Daemon;
pub use seen::Seen;
