//! The claim of a worker ID in a registry that hosts share, as plain state machines and values: what
//! was read goes in, what to read, to write and to tell comes out. No clock, no IO, and no particular
//! registry.

pub mod claimant;
#[cfg(test)]
mod model;
pub mod name;
pub mod plan;
pub mod quiet;
pub mod record;
#[cfg(test)]
pub(crate) mod simulation;
pub mod step;
pub mod view;
