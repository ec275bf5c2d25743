//! The conformance suite: one runner for the clients of all languages. It plays scenarios with a fake
//! daemon that misbehaves on command, or with a real leafd that it kills. `tests/conformance/README.md`
//! is its contract with the drivers.

pub mod answer;
pub mod driver;
pub mod fake;
pub mod frames;
pub mod language;
pub mod scenario;
pub mod scenarios;
pub mod stage;
pub mod table;

pub use language::{Column, Language};
