//! The command line of `leafctl run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leaf_client::wire::MAX_POOL_CHARS;

use crate::duration;

/// The arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(
    after_long_help = "Exit status: the command's own, or 128+N if signal N ended it. 69: no worker \
    ID within --wait, so the command was not started. 75: the worker ID was lost or could not be \
    held, so leafctl ended the command; a service manager should start it again. 125: leafctl could \
    not start the command. 126: the command cannot be executed. 127: there is no such \
    command.\n\nThe command should not move its processes out of the control group in which leafctl \
    starts it, and leafctl should not be stopped (SIGSTOP) alone: it cannot end the command in time \
    while it is stopped itself."
)]
#[command(group(clap::ArgGroup::new("passed").required(true).multiple(true)))]
pub struct RunArgs {
    /// Pass the worker ID in this environment variable
    #[arg(long, group = "passed", value_name = "NAME", value_parser = variable)]
    pub worker_env: Option<String>,

    /// Write the worker ID to this file before the command starts, and remove it at the end
    #[arg(long, group = "passed", value_name = "PATH")]
    pub worker_file: Option<PathBuf>,

    /// Pass the number of bits of the pool's worker IDs in this environment variable
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pub bits_env: Option<String>,

    /// Borrow from this pool of leafd's configuration
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = pool)]
    pub pool: String,

    /// Give processes this long to end after SIGTERM, such as 500ms or 10s, before SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub grace: Duration,

    /// Wait this long for a worker ID
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub wait: Duration,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Parses the name of an environment variable.
///
/// # Errors
/// What is wrong with it.
fn variable(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if text.is_empty() || !is_plain || text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("an environment variable has letters, digits and _, and no digit first".into());
    }
    Ok(text.to_owned())
}

/// Parses the name of a pool.
///
/// # Errors
/// What is wrong with it.
pub(super) fn pool(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=MAX_POOL_CHARS).contains(&text.len()) || !text.bytes().all(is_plain) {
        return Err(format!("a pool's name has 1 to {MAX_POOL_CHARS} of a-z, 0-9 and -"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::leafctl::{Cli, LeafctlCommand};
    use clap::Parser;

    fn parsed(words: &[&str]) -> Result<RunArgs, String> {
        let words = ["leafctl", "run"].iter().chain(words);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let LeafctlCommand::Run(args) = cli.command else { panic!("not run") };
        Ok(args)
    }

    #[test]
    fn whatever_follows_two_dashes_is_the_command() {
        let args = parsed(&["--worker-env", "W", "--", "app", "--grace", "--", "-x"]).unwrap();
        assert_eq!(args.command, ["app", "--grace", "--", "-x"]);
        assert_eq!((args.grace.as_secs(), args.wait.as_secs()), (10, 60));
        assert_eq!(args.pool, "default");
    }

    #[test]
    fn the_worker_id_is_passed_in_at_least_one_way() {
        assert!(parsed(&["--", "app"]).unwrap_err().contains("--worker-env"));
        assert!(parsed(&["--bits-env", "B", "--", "app"]).is_err());
        assert!(parsed(&["--worker-file", "/w", "--", "app"]).is_ok());
        assert!(parsed(&["--worker-file", "/w", "--worker-env", "W", "--", "app"]).is_ok());
        assert!(parsed(&["--worker-env", "W"]).is_err());
    }

    #[test]
    fn names_are_checked() {
        for name in ["", "1W", "A=B", "A B", "Ä"] {
            assert!(parsed(&["--worker-env", name, "--", "app"]).is_err(), "{name:?}");
        }
        for name in ["", "Default", "a_b", "a b", &"a".repeat(33)] {
            assert!(pool(name).is_err(), "{name:?}");
        }
        assert!(pool("ten-bits-2").is_ok() && variable("_W1").is_ok());
    }
}
