//! `leafd`: unique 64-bit IDs for the processes of one host.

#![cfg_attr(
    not(all(feature = "zookeeper", feature = "database", feature = "etcd", feature = "redis")),
    allow(dead_code, unused_imports, reason = "some parts of the claim serve one registry alone")
)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have the real clocks"))]

mod access;
mod actor;
pub mod app;
pub mod audit;
mod backoff;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod duration;
pub mod environment;
mod forecast;
mod frame;
pub mod ids;
mod input;
mod lock;
mod log;
mod manager;
pub mod metrics;
mod patience;
mod prefetch;
pub mod readiness;
pub mod rfc3339;
mod safety;
pub mod secret;
mod segment;
mod service;
mod snowflake;
pub mod state;
pub mod stdout;
pub mod store;
mod supervise;
mod tally;
#[cfg(any(feature = "etcd", feature = "redis"))]
mod tls;
mod transport;
mod worker;
