//! The command line of `leafctl bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::duration;

/// How the threads of `bench --pool` take IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolMode {
    /// Let all threads share the pool, so that IDs rise in the whole process
    Ordered,
    /// Give each thread a handle with a range of its own
    PerThread,
}

/// The arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Open C connections
    #[arg(long, short = 'c', value_name = "C", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,

    /// Keep N requests in flight on each connection
    #[arg(long, short = 'f', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub in_flight: u32,

    /// Ask for N IDs per request
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,

    /// Measure a pool of IDs inside this process instead, beside an atomic and a plain addition
    ///
    /// Rounds with the pool, with AtomicU64::fetch_add and with an addition in each thread alternate.
    #[arg(long, value_name = "MODE",
        conflicts_with_all = ["connections", "in_flight", "count", "tags"])]
    pub pool: Option<PoolMode>,

    /// Take IDs from the pool in N threads
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pool",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,

    /// Request IDs of this biz tag
    #[arg(long, default_value = "bench")]
    pub tag: String,

    /// Spread the requests over N tags, named TAG-0, TAG-1 and so on (TAG-00 if N is above 10)
    #[arg(long, value_name = "N", conflicts_with = "verify",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tags: Option<u32>,

    /// Request snowflake IDs instead
    #[arg(long, conflicts_with_all = ["tag", "tags"])]
    pub snowflake: bool,

    /// Keep the tags that the run makes, instead of deleting them at its end
    #[arg(long)]
    pub keep: bool,

    /// Measure for this long
    #[arg(long, short = 'd', value_name = "DURATION", default_value = "5s",
        value_parser = duration::parse_positive)]
    pub duration: Duration,

    /// Run for this long before measuring
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    pub warm_up: Duration,

    /// Check that no ID comes twice in the whole run
    #[arg(long)]
    pub verify: bool,

    /// Print one JSON object, and no progress unless --progress asks for it
    #[arg(long)]
    pub json: bool,

    /// Print progress on stderr every second (the default on a terminal)
    #[arg(long)]
    pub progress: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::leafctl::{Cli, LeafctlCommand};

    fn parsed(words: &[&str]) -> Result<BenchArgs, clap::Error> {
        let words = ["leafctl", "bench"].iter().chain(words);
        let LeafctlCommand::Bench(args) = Cli::try_parse_from(words)?.command else { panic!() };
        Ok(args)
    }

    #[test]
    fn a_pool_has_threads_and_neither_connections_nor_requests() {
        let args = parsed(&["--pool", "per-thread", "--threads", "4"]).unwrap();
        assert_eq!((args.pool, args.threads), (Some(PoolMode::PerThread), 4));
        assert_eq!(parsed(&["--pool", "ordered", "--snowflake"]).unwrap().threads, 1);
        for option in [&["-c", "1"][..], &["-f", "1"], &["-n", "1"], &["--tags", "3"]] {
            assert!(parsed(&[option, &["--pool", "ordered"]].concat()).is_err(), "{option:?}");
        }
        for wrong in [&["--threads", "2"][..], &["--pool", "fair"], &["--pool"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        for threads in ["0", "1025"] {
            assert!(parsed(&["--pool", "ordered", "--threads", threads]).is_err(), "{threads}");
        }
    }
}
