//! The command lines of both programs. They are in the library, not in the programs, so that
//! `examples/manual` can generate manual pages and completions from them.

pub mod leafctl;
pub mod leafd;
pub mod status;
