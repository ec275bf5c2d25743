//! `leafd`: unique 64-bit IDs for the processes of one host.

pub mod access;
pub mod app;
pub mod audit;
mod backoff;
mod boot;
pub mod cli;
pub mod clock;
pub mod config;
pub mod duration;
mod frame;
pub mod ids;
mod input;
mod log;
mod manager;
mod patience;
pub mod rfc3339;
mod safety;
pub mod secret;
pub mod segment;
pub mod service;
pub mod snowflake;
pub mod state;
pub mod stdout;
pub mod store;
mod supervise;
pub mod transport;
pub mod worker;
