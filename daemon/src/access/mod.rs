//! Who may do what, and how much of it. [`rules`] and [`bucket`] are pure and decide by a
//! [`principal`]; [`ledger`] keeps what each user has open and has had; [`turns`] says whose requests
//! are served next. No socket and no bytes get in here.

pub mod bucket;
pub mod ledger;
pub mod principal;
pub mod rules;
pub mod turns;
