//! Snowflake IDs: time | worker | sequence. [`sequencer`] and [`last_use`] decide, without a clock
//! and without IO; [`issuer`] reads the clock, keeps waiting requests in a `queue`, and has the
//! ceiling raised on disk.

pub(crate) mod issuer;
pub(crate) mod last_use;
pub(crate) mod life;
mod queue;
mod refusal;
pub(crate) mod sequencer;
