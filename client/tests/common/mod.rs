//! Both clients behind one trait, because they make the same promises.

#![allow(dead_code, reason = "each test file uses a part")]

use std::time::{Duration, SystemTime};

use leaf_client::testing::FakeDaemon;
use leaf_client::{
    Client, DaemonStatus, Error, ForecastPage, Ids, Options, TagStatus, WorkerStatus, blocking,
};
use tokio::runtime::Runtime;

macro_rules! api {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// Every call of a client.
        pub(crate) trait Api: Send {
            $(fn $name(&mut self, $($arg: $type),*) -> Result<$result, Error>;)*
            fn set_timeout(&mut self, timeout: Duration);
        }

        impl Api for blocking::Client {
            $(fn $name(&mut self, $($arg: $type),*) -> Result<$result, Error> {
                self.$name($($arg),*)
            })*
            fn set_timeout(&mut self, timeout: Duration) {
                self.set_timeout(timeout);
            }
        }

        impl Api for (Runtime, Client) {
            $(fn $name(&mut self, $($arg: $type),*) -> Result<$result, Error> {
                self.0.block_on(self.1.$name($($arg),*))
            })*
            fn set_timeout(&mut self, timeout: Duration) {
                self.1 = self.1.with_timeout(timeout);
            }
        }
    };
}

api! {
    next(tag: &str) -> u64;
    next_many(tag: &str, count: u32) -> Ids;
    snowflake() -> u64;
    snowflake_many(count: u32) -> Ids;
    time() -> SystemTime;
    status() -> DaemonStatus;
    tag_list(after: &str, limit: u32) -> Vec<TagStatus>;
    tag_show(tag: &str) -> TagStatus;
    tag_create(tag: &str, step: u32, first: u64, description: &str) -> TagStatus;
    tag_set_step(tag: &str, step: u32) -> TagStatus;
    worker_list(from: u64, limit: u32) -> Vec<WorkerStatus>;
    worker_release(worker: u64, owner: &str) -> WorkerStatus;
    tag_delete(tag: &str) -> TagStatus;
    tags_used(after: &str, limit: u32) -> Vec<TagStatus>;
    tag_forecasts(after: &str, limit: u32) -> ForecastPage;
    tag_forecast(tag: &str) -> ForecastPage;
    public_encode(tag: &str, ids: &[u64]) -> Vec<String>;
    public_decode(tag: &str, public_ids: &[&str]) -> Vec<u64>;
}

/// A function that makes one of the two clients.
pub(crate) type Make = fn(Options) -> Box<dyn Api>;

/// Runs a test with each client, each time with a new daemon.
pub(crate) fn with_both(test: impl Fn(FakeDaemon, Make)) {
    let clients: [Make; 2] = [
        |options| Box::new(blocking::Client::new(options)),
        |options| Box::new((runtime(), Client::new(options))),
    ];
    for (name, make) in ["blocking", "async"].into_iter().zip(clients) {
        eprintln!("with the {name} client");
        test(FakeDaemon::start().unwrap(), make);
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Options for calls that have to succeed. The timeout is long, so a busy machine fails no test.
pub(crate) fn patient(daemon: &FakeDaemon) -> Options {
    Options::at(daemon.path()).timeout(Duration::from_secs(30))
}

/// A timeout that is long enough to connect on a busy machine and short enough to wait for.
pub(crate) const SOON: Duration = Duration::from_millis(250);

/// Options for calls that have to reach their timeout.
pub(crate) fn hasty(daemon: &FakeDaemon) -> Options {
    Options::at(daemon.path()).timeout(SOON)
}
