//! Which worker ID this instance uses, and from which time on. [`registry`] has one folder for each
//! place that worker IDs come from; [`claim`] decides how instances share one registry;
//! [`registrar`] executes what it decides; [`peers`] compares the clocks; [`admin`] is what an
//! operator sees and does. No request and no socket of an application enters here.

pub mod address;
pub mod admin;
pub mod administration;
pub mod claim;
pub mod peers;
pub mod registrar;
pub mod registry;
