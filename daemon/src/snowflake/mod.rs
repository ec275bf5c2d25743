//! Snowflake IDs: time | worker | sequence. [`sequencer`] decides, without a clock and without IO;
//! [`issuer`] reads the clock, keeps who waits in a `queue`, and has the ceiling raised on disk.

pub mod issuer;
pub mod last_use;
pub mod life;
mod queue;
pub mod sequencer;
