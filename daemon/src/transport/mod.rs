//! Bytes in, bytes out. [`unix`] is the socket that applications use, [`peer`] the TCP port for other
//! leafd daemons. `greeting` begins a connection on either; [`inherited`] takes over sockets that the
//! service manager has opened; [`lifecycle`] is what `app` needs from a transport.

mod greeting;
pub(crate) mod inherited;
pub(crate) mod lifecycle;
pub(crate) mod peer;
mod throttle;
pub(crate) mod unix;
