//! What leafd answers: typed calls in, typed outcomes out, for a principal. `session` is one
//! caller's side of it, `admission` says whether the caller may and has had too much, and
//! `administration` does the calls that are not about IDs. Neither sockets nor bytes get in here;
//! each transport brings its callers and encodes what they get.

mod administration;
pub(crate) mod admission;
pub(crate) mod room;
#[allow(clippy::module_inception, reason = "the service itself")]
pub(crate) mod service;
pub(crate) mod session;
pub mod terms;
mod turns;

pub use service::Service;
