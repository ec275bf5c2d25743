//! The command line of `leafctl top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::status::interval;

/// The arguments of `top`.
#[derive(Debug, Clone, Args)]
#[command(
    after_long_help = "Keys: q or Ctrl-C ends; r, u and n sort by rate, urgency and name; the arrows, \
    Page Up, Page Down, Home and End scroll; / searches, as you type, for tags whose name contains a \
    text (Enter ends the typing; / and Enter show all tags again); Ctrl-Z suspends.\n\nThe bars show \
    what is left of the current range, and the next range. LIMIT is the next of int32 (2^31 - 1), 2^53 \
    and int64 that the tag's IDs reach, and when, if they go on as fast as this host takes them \
    now.\n\nIn a pipe, a file or on a terminal with TERM=dumb, top prints one block after the other \
    instead, each beginning with 'at' and the time. Without a UTF-8 locale it draws in ASCII. Colours: \
    not if NO_COLOR is set, and not with TERM=dumb."
)]
pub struct TopArgs {
    /// Ask leafd after each INTERVAL, such as 500ms or 10s
    #[arg(long, short = 'i', value_name = "INTERVAL", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// End after N rounds, even while leafd is away; then exit with 69 if it did not answer the last.
    /// On a terminal, the last round stays on the screen
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Show the tags in this order
    #[arg(long, short = 's', value_name = "ORDER", default_value = "rate")]
    pub sort: TopSort,
}

/// Orders of the tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// The tags that give out most IDs per second first
    Rate,
    /// The tags that need an operator first, as in status
    Urgency,
    /// In byte order of their names
    Name,
}

impl TopSort {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Urgency => "urgency",
            Self::Name => "name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::leafctl::{Cli, LeafctlCommand};
    use clap::Parser;

    fn top(arguments: &[&str]) -> Result<TopArgs, String> {
        let line = ["leafctl", "top"].iter().chain(arguments);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            LeafctlCommand::Top(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn top_asks_each_second_without_end_by_rate_unless_it_is_told_otherwise() {
        let args = top(&[]).unwrap();
        assert_eq!((args.interval, args.count), (Duration::from_secs(1), None));
        assert_eq!(args.sort, TopSort::Rate);
        let args = top(&["-n", "3", "-s", "urgency", "-i", "100ms"]).unwrap();
        assert_eq!((args.interval, args.count), (Duration::from_millis(100), Some(3)));
        assert_eq!(args.sort.name(), "urgency");
        assert!(top(&["--count", "0"]).is_err());
        assert!(top(&["--interval", "99ms"]).unwrap_err().contains("at least 100ms"));
    }
}
