//! `leafd`: parse, load, build, run, exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leafd::app;

/// Unique 64-bit IDs for the processes of this host, over a Unix domain socket.
///
/// Without a command, leafd serves until SIGTERM or SIGINT. Without a configuration it serves
/// this host alone, from an embedded store.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Arguments {
    /// The configuration file; without one, /etc/leafd/leafd.toml if it exists, else the defaults
    #[arg(long, global = true, value_name = "FILE", env = "LEAFD_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the configuration and exit: 0 when leafd would start with it
    Check,
    /// Print the statement that makes the table, in the dialect of one database or of each
    Schema {
        /// Which one
        dialect: Option<app::SchemaDialect>,
    },
    /// Print the default configuration with every key explained
    DefaultConfig,
    /// Take the state directory over: after its disk was moved to this machine, or after damage
    ///
    /// Only when no other host goes on from the same state, and this host's clock is right. leafd
    /// must not run. Ranges that were left are given up; nothing is repeated.
    Adopt,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // To standard output when it is help, to standard error when it is not.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { app::EX_USAGE } else { 0 });
        }
    };
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        None => app::serve(config),
        Some(Command::Check) => app::check(config),
        Some(Command::Schema { dialect }) => app::schema(dialect),
        Some(Command::DefaultConfig) => app::default_config(),
        Some(Command::Adopt) => app::adopt(config),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}
