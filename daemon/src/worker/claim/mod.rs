//! How instances share the worker IDs of one registry, as plain state machines and values: what was
//! read goes in, what to read, to write and to tell comes out. No clock, no IO, and no particular
//! registry.

pub(crate) mod claimant;
pub(crate) mod instance;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod name;
pub(crate) mod plan;
pub(crate) mod quiet;
pub(crate) mod record;
pub(crate) mod registrar;
#[cfg(test)]
pub(crate) mod simulation;
pub(crate) mod step;
pub(crate) mod view;
pub(crate) mod write;
