//! The command line of `leafctl bench`.

use std::time::Duration;

use clap::Args;

use crate::duration;

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
