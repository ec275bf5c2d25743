//! Typed calls in, typed outcomes out, for a principal. `session` answers one caller, `admission`
//! checks what that caller may do, `administration` runs the calls that manage tags and workers, and
//! `policy` holds what a reload can change. No socket and no bytes get in here: a transport
//! identifies its callers and encodes the answers.

mod administration;
mod admission;
mod answers;
pub(crate) mod counts;
pub(crate) mod in_flight;
pub(crate) mod policy;
mod public;
mod queues;
pub(crate) mod session;
mod shared;
mod trail;
pub(crate) mod viewer;

pub(crate) use shared::{Service, ServiceRooms};
