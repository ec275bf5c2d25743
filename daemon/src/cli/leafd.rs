//! The command line of leafd. Nothing is executed here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::app::SchemaDialect;

/// Issue unique 64-bit IDs to the processes of this host, over a Unix domain socket.
///
/// Without a command, leafd serves until SIGTERM or SIGINT. Without a configuration, it serves this
/// host alone, from an embedded store.
#[derive(Debug, Parser)]
#[command(name = "leafd", version, disable_help_subcommand = true)]
pub struct Arguments {
    /// Read this configuration file [default: /etc/leafd/leafd.toml if it exists, else the built-in
    /// defaults]
    #[arg(long, global = true, value_name = "FILE", env = "LEAFD_CONFIG")]
    pub config: Option<PathBuf>,
    /// The command to execute; without one, leafd serves.
    #[command(subcommand)]
    pub command: Option<LeafdCommand>,
}

/// The commands of leafd.
#[derive(Debug, Subcommand)]
pub enum LeafdCommand {
    /// Do what leafctl does: get IDs, inspect and administer the running leafd
    ///
    /// This is leafctl without a second program: type leafd ctl where a page says leafctl. For all
    /// commands, see leafd ctl --help.
    #[command(disable_help_flag = true, override_usage = "leafd ctl <COMMAND>")]
    Ctl {
        /// A command of leafctl, with its options
        #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check the configuration, and exit with 0 if leafd would start with it
    Check {
        /// Do not read passwords; a reload does not read them either
        #[arg(long)]
        without_secrets: bool,
    },
    /// Print the SQL that creates leafd's tables, for one database or for all
    Schema {
        /// The database [default: all]
        dialect: Option<SchemaDialect>,
    },
    /// Give each of several databases its share of the IDs (store.kind = "several")
    ///
    /// A share is one database's, for ever: IDs of two databases cannot meet, whatever is interrupted.
    /// Each command can be repeated.
    #[command(subcommand)]
    Division(DivisionCommand),
    /// Print the default configuration with every key explained
    DefaultConfig,
    /// Take over the state directory after its disk was moved to this machine, or after it was
    /// damaged, lost or restored from a backup
    ///
    /// Do this only if no other host continues from the same state and this host's clock is right.
    /// Stop leafd first. leafd drops the ranges that the directory still holds, so no ID comes
    /// twice.
    ///
    /// With the embedded store, a directory that was lost, restored or copied does not know which
    /// IDs were issued since, so you have to pass --above. Find each tag's highest ID in the tables
    /// of your applications, and add a margin for IDs that are not stored yet.
    Adopt {
        /// Begin above N, since no ID above N was ever issued for TAG, or for any tag. May be
        /// repeated. If every N names a TAG, all other tags begin above the highest N
        #[arg(long, value_name = "[TAG=]N")]
        above: Vec<String>,
        /// Create a new state directory, because the old one is gone. For shared stores only; with the embedded
        /// store, use --above
        #[arg(long)]
        lost: bool,
    },
    /// Hand the node of this host's worker ID back to Java Leaf, and wait until Java Leaf may start
    ///
    /// Stop leafd first, and disable its units so that nothing starts it. From then on, leafd does
    /// not use the worker ID until Java Leaf has taken the node and left it again, with or without
    /// ZooKeeper. leafd never lowers the recorded time: the command waits until the clock has
    /// passed it, and then says what to check.
    #[cfg(feature = "zookeeper")]
    HandBack {
        /// Let leafd use the worker ID again; Java Leaf must not run
        #[arg(long)]
        undo: bool,
    },
    /// Look for ranges that were leased twice, in the lease logs of any number of hosts
    ///
    /// Each leafd writes its leases to leases.log in its state directory. Collect these files and
    /// pass all of them. Exits with 1 if two leases of one tag and database overlap. The command
    /// changes nothing, and leafd may be running.
    Audit {
        /// Lease logs, or state directories
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// The commands of `leafd division`.
#[derive(Debug, Subcommand)]
pub enum DivisionCommand {
    /// Give a share to each database of store.urls that has none, and make the rows of tags that it
    /// lacks
    ///
    /// Without any share yet, this makes a new division, whose name then has to be in store.division
    /// on every host. All databases have to answer, and their tables have to be there (leafd schema).
    Make {
        /// Divide into N shares, of which each database ever added needs at least one; 2 to 1024
        #[arg(long, value_name = "N", default_value_t = 64)]
        shares: u64,
        /// Give out blocks of N IDs in a new division; 1000 to 10^12. No lease is larger
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        block: u64,
    },
    /// Show the share of each database of store.urls
    Show,
    /// Close a share, so that no leafd leases from its database, before that is removed
    Close {
        /// The share, as leafd division show prints it
        share: u64,
    },
    /// Open a closed share again
    Open {
        /// The share, as leafd division show prints it
        share: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_follows_ctl_is_left_to_leafctl() {
        for words in [
            &["next", "-n", "5", "orders"][..],
            &["--help"],
            &["--version"],
            &["--socket", "/s", "status", "--json"],
            &["tag", "delete", "--yes", "--", "-x"],
            &["decode", "-5"],
            &[],
        ] {
            let line = ["leafd", "ctl"].iter().chain(words);
            let parsed = Arguments::try_parse_from(line).unwrap();
            let Some(LeafdCommand::Ctl { arguments }) = parsed.command else { panic!("{words:?}") };
            assert_eq!(arguments, words);
        }
    }
}
