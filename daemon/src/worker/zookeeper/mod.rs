//! Worker IDs from ZooKeeper, in Java Leaf's tree.

pub mod address;
pub mod administration;
pub mod claimant;
pub mod hand_back;
#[cfg(test)]
mod model;
pub mod name;
pub mod plan;
pub mod quiet;
pub mod record;
pub mod registrar;
pub mod session;
#[cfg(test)]
mod simulation;
pub mod step;
pub mod view;
