//! The command line: what can be asked of leafctl and how it is written. Checks that need only
//! the words are made here; nothing is carried out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::duration;
use clap::{Args, Parser, Subcommand};
use leaf_client::Layout;

/// Asks leafd for IDs, looks at it, administers its tags and measures it.
#[derive(Debug, Parser)]
#[command(
    name = "leafctl",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 duplicates found by bench --verify, 64 wrong use or a \
                  refusal, 69 leafd not reachable or not able now, 74 output not writable, 76 \
                  the peer does not speak the protocol."
)]
pub struct Cli {
    /// Where leafd is and how patient to be.
    #[command(flatten)]
    pub daemon: DaemonArgs,

    /// What is asked.
    #[command(subcommand)]
    pub command: Command,
}

/// Where leafd is and how patient to be.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// leafd's socket [env: LEAFD_SOCKET] [default: that of the user's own leafd if there is one,
    /// else /run/leafd/leafd.sock]
    // The variable is read where the default is made, so that every client treats it the same.
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// How long to wait for each answer, as in 500ms or 5s [default: 5s; of `health`, and in all:
    /// 900ms]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
}

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long `health` waits in all: less than the second after which a kubelet ends a probe unless
/// told otherwise, so that the reason is told. What it asks is in memory.
const PROBE_TIMEOUT: Duration = Duration::from_millis(900);

impl DaemonArgs {
    /// The socket to connect to.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(leaf_client::default_socket_path)
    }

    /// How long to wait for each answer.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// How long `health` waits in all.
    pub fn probe_timeout(&self) -> Duration {
        self.timeout.unwrap_or(PROBE_TIMEOUT)
    }

    /// The socket where the command line names one.
    pub fn given_socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }
}

/// What leafctl is asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prints IDs of a biz tag, one per line
    Next {
        /// The biz tag
        tag: String,
        /// How many IDs
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
    },
    /// Prints snowflake IDs, one per line
    Snowflake {
        /// How many IDs
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
    },
    /// Takes snowflake IDs apart, by leafd's layout or by one that is named
    Decode(DecodeArgs),
    /// Tells how leafd is: its ranges, its worker ID, its clock
    Status {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Tells by the exit status whether leafd answers, for probes: 0, or 69 and the reason
    Health {
        /// Whether IDs are to be had too: snowflake IDs where they are configured, and no request
        /// that waits for a store that fails. While memory serves, a store that fails is no matter
        #[arg(long)]
        ready: bool,
    },
    /// Lists and administers biz tags
    #[command(subcommand)]
    Tag(TagCommand),
    /// Lists the worker IDs of all hosts, and releases those of hosts that are gone
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Measures leafd: throughput and latency, and with --verify uniqueness
    Bench(BenchArgs),
}

/// What is taken apart, and how it is shown.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The IDs, in decimal
    // Taken as text so that a wrong one is named as it was written.
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// leaf, twitter, baidu, or TIME/WORKER/SEQUENCE@EPOCH_MS[/UNITms] in bits, as in
    /// 41/10/12@1288834974657 [default: that of the running leafd, else leaf, with a warning]
    #[arg(long)]
    pub layout: Option<Layout>,

    /// Prints one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// What is done with tags.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Lists all tags
    List {
        /// Prints one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Makes a tag
    Create {
        /// The tag, up to 128 characters
        tag: String,
        /// IDs per lease [default: the daemon's]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        step: Option<u32>,
        /// The lowest ID that the tag may give; where a tag of this name was deleted, it goes on
        /// above that
        #[arg(long, value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..i64::MAX as u64))]
        first: u64,
        /// For people, up to 256 characters
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Changes how many IDs a tag leases at a time
    SetStep {
        /// The tag
        tag: String,
        /// IDs per lease
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        step: u32,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Deletes a tag, and remembers where it ended
    ///
    /// A tag that is made with this name later begins there, whichever host makes it. IDs in the
    /// memory of this leafd are dropped; other hosts stop serving the tag when they read their
    /// tags again (segment.refresh). Where tags are made on first use, the next request makes it
    /// again.
    ///
    /// Without --yes, shows the tag, and asks for its name to be typed.
    Delete {
        /// The tag
        tag: String,
        /// Asks for nothing
        #[arg(long)]
        yes: bool,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Shows one tag
    Show {
        /// The tag
        tag: String,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What is done with worker IDs.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Lists all worker IDs of the registry, and who has them
    List {
        /// Prints one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Makes the worker ID of an owner that is gone for good free for anybody
    ///
    /// Only for an owner that will never start again with its state directory, on a host that was
    /// taken down for example: one that came back could go on with this worker ID, and IDs could
    /// come twice. Worker IDs of owners that are live are not released.
    ///
    /// Without --owner, shows who has the worker ID, and asks for the owner's name to be typed.
    Release {
        /// The worker ID
        #[arg(value_name = "ID")]
        worker: u64,
        /// The owner that is gone, as leafctl worker list shows it; asks for nothing
        #[arg(long, value_name = "IDENTITY")]
        owner: Option<String>,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What is measured.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Connections at the same time
    #[arg(long, short = 'c', value_name = "C", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,

    /// Requests in flight on each connection
    #[arg(long, short = 'f', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub in_flight: u32,

    /// IDs per request
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,

    /// The biz tag to take IDs of
    #[arg(long, default_value = "bench")]
    pub tag: String,

    /// Spreads the requests over so many tags, named TAG-0 and so on with equally many digits
    #[arg(long, value_name = "N", conflicts_with = "verify",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tags: Option<u32>,

    /// Takes snowflake IDs instead
    #[arg(long, conflicts_with_all = ["tag", "tags"])]
    pub snowflake: bool,

    /// How long to measure
    #[arg(long, short = 'd', value_name = "DURATION", default_value = "5s",
        value_parser = duration::parse_positive)]
    pub duration: Duration,

    /// How long to run before measuring
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    pub warm_up: Duration,

    /// Checks that no ID comes twice over the whole run
    #[arg(long)]
    pub verify: bool,

    /// Prints one JSON object, and no progress unless asked for
    #[arg(long)]
    pub json: bool,

    /// Reports progress on stderr each second, which is the default on a terminal
    #[arg(long)]
    pub progress: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_the_daemon_may_follow_the_command() {
        let cli = Cli::try_parse_from(["leafctl", "status", "--socket", "/s", "--timeout", "1m"])
            .unwrap();
        assert_eq!(cli.daemon.socket(), PathBuf::from("/s"));
        assert_eq!(cli.daemon.timeout(), Duration::from_secs(60));
    }

    #[test]
    fn a_count_of_zero_is_refused() {
        for args in [
            &["leafctl", "next", "t", "--count", "0"][..],
            &["leafctl", "snowflake", "-n", "0"],
            &["leafctl", "bench", "--count", "0"],
            &["leafctl", "tag", "set-step", "t", "0"],
        ] {
            assert!(Cli::try_parse_from(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_negative_id_reaches_the_decoder_to_be_named() {
        let cli = Cli::try_parse_from(["leafctl", "decode", "-5"]).unwrap();
        assert!(matches!(cli.command, Command::Decode(args) if args.ids == ["-5"]));
    }
}
