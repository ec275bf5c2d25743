//! The blocking client: one connection and one request at a time, with the standard library alone.
//! It makes the same promises as the asynchronous client.

mod administration;
mod client;
mod connection;
mod descriptor;
mod dial;
mod frame_buffer;

pub use client::Client;
pub(crate) use descriptor::Descriptor;
