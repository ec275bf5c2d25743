//! The command line of `leafctl status`.

use std::time::Duration;

use clap::Args;

use crate::duration;

/// The shortest interval of `--watch` and of `top`: what it asks for must not become a load.
const SHORTEST: Duration = Duration::from_millis(100);

/// The arguments of `status`.
#[derive(Debug, Clone, Args)]
#[command(
    after_long_help = "On a terminal, the columns and the tags that fit are shown, the most \
    urgent tags first: those whose requests wait or whose last lease failed, then those whose IDs \
    in memory run out first. Anywhere else, as in a pipe or a file, every tag and every column is \
    printed, one line each, the tags in byte order, without colours: the output depends on no \
    terminal.\n\nColours: not if NO_COLOR is set, and not with TERM=dumb."
)]
pub struct StatusArgs {
    /// Print one JSON object, with every tag
    #[arg(long)]
    pub json: bool,

    /// On a terminal, print every column, even if lines get too long
    #[arg(long)]
    pub wide: bool,

    /// On a terminal, print every tag, even if the first lines scroll away
    #[arg(long)]
    pub all: bool,

    /// Print the status again after each INTERVAL, such as 500ms or 10s, until q or Ctrl-C [default
    /// INTERVAL: 2s]
    ///
    /// leafctl goes on while leafd is unreachable, for example during a restart, and shows since
    /// when. On a terminal it redraws in place; elsewhere it prints one block after the other.
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s",
        conflicts_with = "json", value_parser = interval)]
    pub watch: Option<Duration>,
}

/// Parses an interval between questions.
///
/// # Errors
/// What is wrong with it.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        short if short < SHORTEST => Err("the interval must be at least 100ms".to_owned()),
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::leafctl::{Cli, LeafctlCommand};
    use clap::Parser;

    fn watch(arguments: &[&str]) -> Result<Option<Duration>, String> {
        let line = ["leafctl", "status"].iter().chain(arguments);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            LeafctlCommand::Status(args) => Ok(args.watch),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_interval_of_watch_is_two_seconds_unless_it_is_given_and_never_a_load() {
        assert_eq!(watch(&[]), Ok(None));
        assert_eq!(watch(&["--watch"]), Ok(Some(Duration::from_secs(2))));
        assert_eq!(watch(&["--watch", "--all"]), Ok(Some(Duration::from_secs(2))));
        assert_eq!(watch(&["--watch", "100ms"]), Ok(Some(SHORTEST)));
        assert!(watch(&["--watch", "99ms"]).unwrap_err().contains("at least 100ms"));
        assert!(watch(&["--watch", "--json"]).unwrap_err().contains("cannot be used with"));
    }
}
