//! Segment IDs: ranges leased per biz tag from a store and served from memory. [`buffer`],
//! [`step`] and [`window`] decide, without a clock and without IO; [`rate`] is for people.
//! [`service`] executes what they say, with a room for each kind of work: leasing, persisting, and
//! the list of tags. [`crate::store`] is where ranges come from.

pub mod admin;
pub mod buffer;
mod deadlines;
pub mod elsewhere;
pub mod health;
mod lease;
mod list;
mod persist;
mod probe;
pub mod rate;
mod refresh;
mod refusal;
pub mod service;
pub mod step;
mod table;
pub mod terms;
mod watch;
pub mod window;
