//! The Unix socket. [`socket`] makes it, [`accept`] takes connections within bounds, `connection`
//! moves bytes, `calls` decodes and encodes them, and `linger` ends the connections that are refused.
//! [`serving`] is the thread on which all of that happens. What a request means is decided in
//! [`crate::service`].

pub mod accept;
mod calls;
mod connection;
mod credentials;
pub(crate) mod linger;
mod scratch;
mod server;
pub mod serving;
pub mod socket;
mod wake_timer;
pub(crate) mod watched;
