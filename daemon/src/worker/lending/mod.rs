//! Worker IDs for processes that use another snowflake library. leafd claims a number for each of them,
//! in a fleet of its own registry that nothing else uses, and lends it for as long as the borrower's
//! connection lasts, or a process of its cgroup. [`book`] makes the decisions; [`pool`] runs the claims.
//! No ID is issued here.

mod book;
mod cgroup;
mod lender;
mod messages;
mod pool;
mod state;
mod user;

pub(crate) use cgroup::Cgroup;
pub(crate) use lender::{Lender, LenderSettings, Lending, PoolSettings};
pub(crate) use messages::{BorrowRequest, ResumedLoan};
