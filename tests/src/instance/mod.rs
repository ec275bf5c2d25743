//! What all servers that tests start have in common: a folder that is removed with them, a process
//! that can be frozen and killed, and ports that nobody else takes meanwhile.

mod home;
mod port;
mod process;

pub(crate) use home::{Home, copy_folder};
pub(crate) use port::Port;
pub(crate) use process::Process;
