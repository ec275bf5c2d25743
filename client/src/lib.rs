//! The client of `leafd`, the daemon that issues unique 64-bit IDs to the processes on its host.
//!
//! There are two kinds of ID: *segment* IDs, which are dense and rise per business tag, and
//! *snowflake* IDs, which contain the time and the worker that issued them. No ID is issued twice.
//! A failed or repeated call may skip IDs.
//!
//! The asynchronous `Client` (feature `async`, on by default) runs on tokio. It is cheap to clone,
//! and all clones share one connection:
//!
//! ```
//! # #[cfg(all(feature = "async", feature = "testing"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let daemon = leaf_client::testing::FakeDaemon::start()?;
//! # let options = leaf_client::Options::at(daemon.path());
//! # #[cfg(any())]
//! let options = leaf_client::Options::new();
//! let client = leaf_client::Client::connect(options).await?;
//!
//! let order = client.next("order").await?;
//! for id in client.next_many("order-line", 100).await? {
//!     println!("line {id} of order {order}");
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "async", feature = "testing")))]
//! # fn main() {}
//! ```
//!
//! The blocking client (feature `blocking`) needs no runtime:
//!
//! ```
//! # #[cfg(all(feature = "blocking", feature = "testing"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let daemon = leaf_client::testing::FakeDaemon::start()?;
//! # let options = leaf_client::Options::at(daemon.path());
//! # #[cfg(any())]
//! let options = leaf_client::Options::new();
//! let mut client = leaf_client::blocking::Client::new(options);
//!
//! match client.next("order") {
//!     Ok(id) => println!("order {id}"),
//!     Err(error) if error.is_temporary() => println!("try again later: {error}"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "blocking", feature = "testing")))]
//! # fn main() {}
//! ```
//!
//! A snowflake ID is decoded without the daemon:
//!
//! ```
//! use leaf_client::Layout;
//!
//! # #[cfg(all(feature = "blocking", feature = "testing"))]
//! # fn id() -> Result<u64, Box<dyn std::error::Error>> {
//! # let daemon = leaf_client::testing::FakeDaemon::start()?;
//! # Ok(leaf_client::blocking::Client::new(leaf_client::Options::at(daemon.path())).snowflake()?)
//! # }
//! # #[cfg(not(all(feature = "blocking", feature = "testing")))]
//! # fn id() -> Result<u64, Box<dyn std::error::Error>> { Ok(1_305_124_470_726_725_632) }
//! # let id = id()?;
//! let decoded = Layout::LEAF.decode(id)?;
//! println!("issued by worker {} at {} ms since 1970", decoded.worker, decoded.unix_ms);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`form`] turns an ID into other forms: short, readable, sortable, or shaped like a UUID.
//!
//! Both clients look for the socket at [`default_socket_path`] unless they are given a path. For
//! the tests of applications there is `testing::FakeDaemon` (feature `testing`), a leafd inside the
//! process.

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "async")]
mod client;
mod date;
#[cfg(any(feature = "async", feature = "blocking"))]
mod error;
#[cfg(any(feature = "async", feature = "blocking"))]
mod fork;
pub mod form;
#[cfg(any(feature = "async", feature = "blocking"))]
mod ids;
mod layout;
#[cfg(any(feature = "async", feature = "blocking"))]
mod options;
mod path;
#[cfg(feature = "blocking")]
pub mod pool;
#[cfg(any(feature = "async", feature = "blocking"))]
mod session;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod testing_fork;
pub mod wire;

#[cfg(feature = "async")]
pub use client::Client;
#[cfg(any(feature = "async", feature = "blocking"))]
pub use error::{Error, Invalid, ProtocolError};
#[cfg(any(feature = "async", feature = "blocking"))]
pub use ids::{Ids, IdsIter};
pub use layout::{Decoded, FieldOrder, Layout, LayoutError, PRESETS as LAYOUT_PRESETS};
#[cfg(any(feature = "async", feature = "blocking"))]
pub use options::Options;
pub use path::{
    SOCKET_VARIABLE, SYSTEM_SOCKET, default_socket_path, default_socket_path_for_daemon,
};
pub use wire::{DaemonStatus, ErrorCode, ForecastPage, Run, TagStatus, WireError, WorkerStatus};

// Compiles the examples of the README.
#[cfg(all(doctest, feature = "async", feature = "blocking"))]
#[doc = include_str!("../README.md")]
struct Readme;
