//! Bytes in, bytes out. [`unix`] is the socket that applications use, [`peer`] the TCP port for other
//! leafd daemons. `greeting` is how a connection begins on either, and [`inherited`] brings sockets
//! that the service manager has made.

mod greeting;
pub mod inherited;
pub mod peer;
mod throttle;
pub mod unix;
