//! Who this host is among those that issue snowflake IDs: where its worker ID comes from
//! ([`registry`]), and whether what the disk remembers allows to use it ([`claim`]).

pub mod claim;
pub mod registry;
