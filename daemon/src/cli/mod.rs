//! The command lines of both programs: what can be asked and how it is written. They are here, and
//! not in the programs, so that manual pages and completions can be made from them.

pub mod leafctl;
pub mod leafd;
