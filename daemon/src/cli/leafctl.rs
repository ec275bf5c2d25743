//! The command line of leafctl. It checks what the arguments alone can tell, and executes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use super::bench::{BenchArgs, PoolMode};
pub use super::forecast::ForecastArgs;
pub use super::form::FormArgs;
pub use super::run::RunArgs;
pub use super::status::StatusArgs;
pub use super::top::TopArgs;
use crate::duration;
use clap::{Args, Parser, Subcommand, ValueEnum};
use leaf_client::Layout;
use leaf_client::form::FleetId;

/// Get IDs from leafd, inspect it, administer its tags and worker IDs, and benchmark it.
#[derive(Debug, Parser)]
#[command(
    name = "leafctl",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 bench --verify found duplicates or doctor something bad, 64 \
                  wrong usage or leafd refused, 69 leafd is unreachable or cannot do it now, 74 \
                  cannot read the input or write the output, 76 the peer does not speak leafd's \
                  protocol; run has some of its own."
)]
pub struct Cli {
    /// The options that every command has.
    #[command(flatten)]
    pub daemon: DaemonArgs,

    /// The command to execute.
    #[command(subcommand)]
    pub command: LeafctlCommand,
}

/// How to reach leafd, and how long to wait for it.
#[derive(Debug, Clone, Args)]
pub struct DaemonArgs {
    /// Connect to the leafd on this socket [env: LEAFD_SOCKET] [default: the socket of a leafd that
    /// this user runs, else /run/leafd/leafd.sock]
    // leaf_client reads the variable, so that every client treats it the same.
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Wait this long for each answer, such as 500ms or 5s [default: 5s; for run, 2s at most; for
    /// health, 900ms in total]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
}

/// Default timeout for one answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Default timeout for all of `health`: below a kubelet's default probe timeout of one second, so
/// that leafctl can still print the reason. leafd answers a probe from memory.
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

    /// The deadline for everything that `health` asks.
    pub fn probe_timeout(&self) -> Duration {
        self.timeout.unwrap_or(PROBE_TIMEOUT)
    }

    /// The socket, if the command line names one.
    pub fn given_socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }
}

/// The commands of leafctl.
#[derive(Debug, Subcommand)]
pub enum LeafctlCommand {
    /// Print IDs of a biz tag, one per line
    Next {
        /// The biz tag
        tag: String,
        /// Get N IDs
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        /// The form of the IDs
        #[command(flatten)]
        form: FormArgs,
        /// Print one JSON object per line, with the ID as a string
        #[arg(long)]
        json: bool,
    },
    /// Print snowflake IDs, one per line
    Snowflake {
        /// Get N IDs
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        /// The form of the IDs
        #[command(flatten)]
        form: FormArgs,
        /// Print one JSON object per line, with the ID as a string
        #[arg(long)]
        json: bool,
    },
    /// Read IDs in any form, and split them into time, worker ID and sequence number
    ///
    /// The parts are those of a snowflake ID. An ID of a tag has none: for it, only the number counts.
    Decode(DecodeArgs),
    /// Show what leafd is doing: its tags and ranges, its worker ID, its clock
    Status(StatusArgs),
    /// Watch leafd live: the rates of its tags, their ranges and errors, its snowflake IDs
    Top(TopArgs),
    /// Show when IDs outgrow int32, 2^53 and int64, and when the snowflake layout ends
    Forecast(ForecastArgs),
    /// Check whether leafd answers, for probes: exit with 0, or with 69 and print the reason
    Health {
        /// Also check that leafd can issue IDs: fail if snowflake IDs are enabled but not
        /// available, or if requests wait for a store that fails. A failing store alone does not
        /// count as long as leafd can serve from memory
        #[arg(long)]
        ready: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check what commonly goes wrong on this host, and say what to do about it
    ///
    /// Reads leafd's configuration, asks leafd, and looks at the host, the store and ZooKeeper, each
    /// for as long as --timeout says. It changes nothing, and leafd need not run. Run it as root or as
    /// leafd's user: others may not see everything, and doctor says what it could not check. Exits
    /// with 1 if something is bad.
    Doctor(DoctorArgs),
    /// List and administer biz tags
    #[command(subcommand)]
    Tag(TagCommand),
    /// List the worker IDs of all hosts, and release those of hosts that are gone
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Go on after a loss of the store's latest leases
    #[command(subcommand)]
    Store(StoreCommand),
    /// Run a command that makes snowflake IDs with another library, and lend it a worker ID
    ///
    /// leafctl borrows a worker ID of one of leafd's pools, passes it to the command, and gives it
    /// back once the command and every process that it started have ended. If the worker ID cannot
    /// be held any longer, leafctl ends them all in time: with SIGTERM, then with SIGKILL. It passes
    /// signals on to the command.
    Run(RunArgs),
    /// Explain an error, a log line or a reason for having no IDs, from the runbook
    ///
    /// The words are an error's number or name (302, StoreUnavailable), an exit code, a log line as
    /// you copied it, or a part of one; quote what your shell would change. Without words, leafctl
    /// lists everything that it can explain. It asks no leafd.
    Explain(ExplainArgs),
    /// Measure throughput and latency, and with --verify check that no ID comes twice
    Bench(BenchArgs),
    /// Print the versions of leafctl and of the running leafd
    Version {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the script that makes a shell complete leafctl's commands, options, tags and layouts
    Completions {
        /// The shell
        shell: CompletionShell,
    },
}

/// The shells that leafctl knows how to complete for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// GNU Bash
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// What to explain
    #[arg(value_name = "WORDS")]
    pub words: Vec<String>,

    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The IDs, in any form that next and snowflake print; or - to read them from standard input, one
    /// per line
    // Text, so that an error can quote a wrong one as it was written.
    #[arg(required_unless_present = "layouts", value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// Read the IDs in this form, such as base62, and in no other; --as dated reads the days of every
    /// time zone
    #[arg(long = "as", value_name = "FORM")]
    pub form: Option<String>,

    /// Refuse UUIDs and ObjectIDs of another installation: its fleet ID, 10 hexadecimal digits
    #[arg(long, value_name = "HEX", env = "LEAFD_FLEET")]
    pub fleet: Option<FleetId>,

    /// Read public IDs too, by the keys in FILE; without it, --as public has leafd read them
    #[arg(long, value_name = "FILE", env = "LEAFD_PUBLIC_KEYS")]
    pub keys: Option<PathBuf>,

    /// Read public IDs as those of TAG; without it, as those of snowflake IDs
    // A public ID does not say of which tag it is.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,

    /// The layout to decode by.
    // Not from the comment, in which the brackets would be links.
    #[arg(
        long,
        help = "Decode by this layout: leaf, twitter, baidu[@EPOCH], js, sonyflake, discord, or \
                TIME/WORKER/SEQUENCE@EPOCH[/UNITms] in bits, such as 41/10/12@2026-01-01 [default: \
                the layout of the running leafd; if it cannot be reached, leaf, with a warning]"
    )]
    pub layout: Option<Layout>,

    /// List the layouts that have names: their bits, how many workers and IDs they have room for, and
    /// when they end
    #[arg(long, conflicts_with_all = ["ids", "form", "tag", "layout"])]
    pub layouts: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Read the configuration of the leafd to check from FILE [default: /etc/leafd/leafd.toml if it
    /// exists, else the built-in defaults]
    #[arg(long, value_name = "FILE", env = "LEAFD_CONFIG")]
    pub config: Option<PathBuf>,

    /// Also show what is fine
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The commands of `leafctl tag`.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// List all tags
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Create a tag
    Create {
        /// The tag, up to 128 characters
        tag: String,
        /// Lease N IDs at a time [default: the daemon's segment.default-step]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        step: Option<u32>,
        /// Issue no ID below N. If a tag of this name was deleted, the new one
        /// begins above the deleted one's IDs
        #[arg(long, value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u64).range(1..i64::MAX as u64))]
        first: u64,
        /// Say what the tag is for, in up to 256 characters; leafd only shows it
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change how many IDs a tag leases at a time
    SetStep {
        /// The tag
        tag: String,
        /// IDs per lease
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        step: u32,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Delete a tag, and remember where it ended
    ///
    /// If any host creates a tag of this name later, its IDs begin there. This leafd drops the IDs
    /// that it holds in memory; other hosts stop serving the tag at their next refresh
    /// (segment.refresh). If leafd creates tags on first use, the next request creates it again.
    ///
    /// Without --yes, leafctl shows the tag and asks you to type its name.
    Delete {
        /// The tag
        tag: String,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show one tag
    Show {
        /// The tag
        tag: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The commands of `leafctl store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show the epoch of the table leafd_witness, or go on without the hosts that have not confirmed it
    ///
    /// After a failover or a restart of the database, leases wait until every host has moved its tags above
    /// what it knows. If a host does not come back, nobody knows what it had leased: say by how many IDs every
    /// tag has to move to be above that. Reads leafd's configuration and asks the database itself, so no leafd
    /// has to run. Run it as root or as leafd's user.
    AcceptLoss {
        /// Read the configuration of leafd from FILE [default: /etc/leafd/leafd.toml if it exists, else the
        /// built-in defaults]
        #[arg(long, value_name = "FILE", env = "LEAFD_CONFIG")]
        config: Option<PathBuf>,
        /// Close this epoch; without it, only show the table
        #[arg(long, value_name = "N", requires = "margin")]
        epoch: Option<u64>,
        /// Move every tag forward by N IDs; 0 to 10^12. 0 says that the missing hosts leased nothing that was
        /// lost
        #[arg(long, value_name = "N", requires = "epoch",
            value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
        margin: Option<u64>,
    },
}

/// The commands of `leafctl worker`.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List all worker IDs in the registry and their owners
    List {
        /// List the worker IDs of this pool, from which leafctl run borrows
        #[arg(long, value_name = "NAME", value_parser = super::run::pool)]
        pool: Option<String>,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Release a worker ID whose owner is gone for good, so that another leafd can claim it
    ///
    /// Do this only if the owner will never start again with its state directory, for example
    /// because its host was decommissioned. An owner that came back could go on with this worker
    /// ID, and IDs could come twice. leafd does not release the worker ID of a live owner.
    ///
    /// Without --owner, leafctl shows the owner and asks you to type its name.
    Release {
        /// The worker ID
        #[arg(value_name = "ID")]
        worker: u64,
        /// Name the owner that is gone, as leafctl worker list shows it, and release without asking
        #[arg(long, value_name = "IDENTITY")]
        owner: Option<String>,
        /// Release a worker ID of this pool, from which leafctl run borrows
        #[arg(long, value_name = "NAME", value_parser = super::run::pool)]
        pool: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
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
    fn options_for_reaching_leafd_may_follow_the_command() {
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
    fn decode_gets_negative_ids_so_that_its_error_can_quote_them() {
        let cli = Cli::try_parse_from(["leafctl", "decode", "-5"]).unwrap();
        assert!(matches!(cli.command, LeafctlCommand::Decode(args) if args.ids == ["-5"]));
    }
}
