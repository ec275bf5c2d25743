//! The command line of `leafctl forecast`.

use clap::Args;

/// The arguments of `forecast`.
#[derive(Debug, Clone, Args)]
#[command(
    after_long_help = "The figures are those of leafd's metrics. A rate is the growth of a tag's \
    highest ID, by all hosts, over up to a week. leafd knows it ten minutes after it has first seen \
    the tag, keeps it over restarts, and has rates for the 5,000 tags with the highest IDs.\n\nThe \
    tag that reaches a limit first comes first. Of more than 10,000 tags, the rest is counted."
)]
pub struct ForecastArgs {
    /// Show this tag alone
    pub tag: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
