//! The blocking client: one connection, one request at a time, the standard library alone. It
//! keeps the same promises as the asynchronous one.

mod client;
mod connection;
mod dial;
mod frame_buffer;

pub use client::Client;
