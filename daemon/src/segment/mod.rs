//! Segment IDs: ranges leased per tag from a store and served from memory. [`buffer`], [`step`],
//! [`window`], [`health`] and [`table`] decide, without a clock and without IO; [`rate`] feeds the
//! status. [`service`] executes their decisions, with a file for each kind of work: requests,
//! leases, writes, deadlines, the list of tags. Ranges come from [`crate::store`].

mod admin;
mod buffer;
mod close;
mod deadline_timer;
mod deadlines;
mod figures;
mod health;
mod lease;
pub(crate) mod lease_tally;
mod list;
pub(crate) mod messages;
pub(crate) mod other_database;
mod past_days;
mod persist;
mod probe;
mod rate;
mod refresh;
mod refusal;
pub(crate) mod request;
pub(crate) mod search;
pub(crate) mod service;
mod status;
mod step;
pub(crate) mod table;
pub(crate) mod tag;
mod window;
mod witness;
