//! Bytes in, bytes out. [`unix`] is the socket that applications use, [`peer`] the TCP port for other
//! leafd daemons, [`http`] the HTTP server. `greeting` begins a connection on the first two;
//! [`inherited`] takes over sockets that the service manager has opened; [`lifecycle`] is what `app`
//! needs from a transport.

mod greeting;
pub(crate) mod http;
pub(crate) mod inherited;
pub(crate) mod lifecycle;
pub(crate) mod peer;
pub(crate) mod serving_thread;
mod throttle;
pub(crate) mod unix;
