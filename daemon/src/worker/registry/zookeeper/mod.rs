//! Worker IDs from ZooKeeper, in Java Leaf's tree.

pub mod hand_back;
pub mod session;
