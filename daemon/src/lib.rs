//! `leafd`: unique 64-bit IDs for the processes of one host.

pub mod access;
pub mod app;
pub mod audit;
pub mod backoff;
pub mod cli;
pub mod config;
pub mod duration;
pub mod environment;
mod frame;
pub mod ids;
mod input;
pub mod log;
pub mod manager;
mod patience;
pub mod rfc3339;
pub mod safety;
pub mod secret;
mod segment;
mod service;
mod snowflake;
pub mod state;
pub mod stdout;
pub mod store;
pub mod supervise;
mod transport;
pub mod worker;
