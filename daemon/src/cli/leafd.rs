//! The command line of leafd. Nothing is carried out.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::app::SchemaDialect;

/// Unique 64-bit IDs for the processes of this host, over a Unix domain socket.
///
/// Without a command, leafd serves until SIGTERM or SIGINT. Without a configuration it serves
/// this host alone, from an embedded store.
#[derive(Debug, Parser)]
#[command(name = "leafd", version, disable_help_subcommand = true)]
pub struct Arguments {
    /// The configuration file; without one, /etc/leafd/leafd.toml if it exists, else the defaults
    #[arg(long, global = true, value_name = "FILE", env = "LEAFD_CONFIG")]
    pub config: Option<PathBuf>,
    /// What is done; nothing: serve.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What is done instead of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the configuration and exit: 0 when leafd would start with it
    Check {
        /// Do not read passwords, as before a reload, which does not read them either
        #[arg(long)]
        without_secrets: bool,
    },
    /// Print the statement that makes the table, in the dialect of one database or of each
    Schema {
        /// Which one
        dialect: Option<SchemaDialect>,
    },
    /// Print the default configuration with every key explained
    DefaultConfig,
    /// Take the state directory over: after its disk was moved to this machine, after damage, or
    /// after it was lost or restored from a backup
    ///
    /// Only when no other host goes on from the same state, and this host's clock is right. leafd
    /// must not run. Ranges that were left are given up; nothing is repeated.
    ///
    /// With the embedded store, a directory that was lost, restored or copied does not know what was
    /// issued since: then --above has to say it. Find the highest ID of each tag in the tables of the
    /// applications, and add a margin for what is not stored yet.
    Adopt {
        /// No ID above N was ever issued, of any tag or of TAG; IDs begin above it. May be repeated.
        /// Where only tags are named, all others begin above the highest of the numbers
        #[arg(long, value_name = "[TAG=]N")]
        above: Vec<String>,
        /// The state directory is gone; make it anew. For shared stores: with the embedded one,
        /// --above says it
        #[arg(long)]
        lost: bool,
    },
    /// Hand the node of this host's worker ID back to Java Leaf, and wait until that may start
    ///
    /// leafd must not run, and nothing may start it: disable its units first. leafd does not use the
    /// worker ID again after this, with or without ZooKeeper, before Java Leaf has had the node and
    /// has left it. The recorded time is never lowered; the command waits until the clock has passed
    /// it, and then says what to check.
    HandBack {
        /// Let leafd use the worker ID again; Java Leaf must not run
        #[arg(long)]
        undo: bool,
    },
    /// Look for ranges that were leased twice, in the lease logs of any number of hosts
    ///
    /// Each leafd writes what it leases to leases.log in its state directory. Collect those files
    /// and pass all of them. Exits with 1 when two leases of one tag and database overlap. Nothing
    /// is changed, and leafd may run.
    Audit {
        /// Lease logs, or state directories
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}
