//! Client of `leafd`, the unique-ID daemon.

mod layout;
pub mod wire;

pub use layout::{Decoded, Layout, LayoutError};
