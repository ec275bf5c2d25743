//! The Unix socket that applications use. [`transport`] starts and stops it: `accept` takes
//! connections, `connection` lives through each of them on a serving thread, `stream` reads and
//! writes, and `calls` decodes requests and encodes answers. `linger` ends connections that were
//! refused. [`crate::service`] decides what a request means.

mod accept;
mod calls;
mod connection;
pub(super) mod credentials;
mod limits;
pub(crate) mod linger;
mod scratch;
mod server;
pub(crate) mod socket;
mod stream;
pub(crate) mod transport;
mod wake_timer;
mod watched;
