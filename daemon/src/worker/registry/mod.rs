//! Where worker IDs come from: one folder for each registry.

pub mod fixed;
pub mod zookeeper;
