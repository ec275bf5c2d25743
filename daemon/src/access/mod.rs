//! Who may do what, and how much of it. [`rules`] and [`bucket`] are pure and decide; [`ledger`]
//! keeps what each user has open and has had; [`turns`] says whose requests are served next; [`peer`] asks the kernel who has connected. Nobody is
//! ever known by a process ID, which may be another's by the time it is looked at.

pub mod bucket;
pub mod ledger;
pub mod peer;
pub mod rules;
pub mod turns;
