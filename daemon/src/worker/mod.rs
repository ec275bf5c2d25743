//! Who this host is among those that issue snowflake IDs: whether the worker ID that an operator
//! has fixed may be used ([`claim`]), or which one ZooKeeper gives ([`zookeeper`]), and whether the
//! clock agrees with the others' ([`peers`]).

pub mod claim;
pub mod peers;
pub mod zookeeper;
