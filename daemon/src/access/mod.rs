//! Who may do what, and how much. `rules` and `bucket` are pure and decide for a `principal`;
//! `ledger` counts each user's connections and IDs; `turns` schedules users on the serving thread.
//! This room knows no socket and no bytes.

pub(crate) mod bucket;
pub(crate) mod ledger;
pub(crate) mod principal;
pub(crate) mod rules;
pub(crate) mod tokens;
pub(crate) mod turns;
