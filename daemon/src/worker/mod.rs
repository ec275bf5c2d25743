//! Who this host is among those that issue snowflake IDs: whether the worker ID that an operator
//! has fixed may be used ([`claim`]), or which one ZooKeeper gives ([`zookeeper`]), whether the
//! clock agrees with the others' ([`peers`]), and what an operator may see and do ([`admin`]).

pub mod admin;
pub mod claim;
pub mod peers;
pub mod zookeeper;
