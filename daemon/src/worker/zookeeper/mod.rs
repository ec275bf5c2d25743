//! Worker IDs from ZooKeeper, in Java Leaf's tree.

pub mod acl;
pub mod claimant;
#[cfg(test)]
mod model;
pub mod name;
pub mod plan;
pub mod record;
pub mod session;
pub mod view;
