//! Which worker ID this instance uses, and from which time on. [`claim`] decides how instances share
//! a registry, [`shell`] executes what it decides, and [`registry`] has one folder for each place that
//! worker IDs come from. [`peers`] compares the clocks; [`administration`] is what an operator sees
//! and does. No request and no socket of an application enters here.

pub(crate) mod address;
pub(crate) mod administration;
#[cfg(feature = "database")]
pub(crate) mod assigned;
pub(crate) mod claim;
pub(crate) mod issuing;
pub(crate) mod lending;
pub(crate) mod peers;
mod registrar_log;
pub(crate) mod registry;
pub(crate) mod shell;
