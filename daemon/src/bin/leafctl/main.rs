//! leafctl: the operator's tool for leafd. It is a client like any other: whatever it does, any
//! program that speaks the protocol can do. `doctor` alone also looks at the configuration, the host,
//! the store and the registry.

#![allow(clippy::disallowed_methods, reason = "leafctl measures on the real host")]

mod ask;
mod bench;
mod connect;
mod decode;
mod doctor;
mod exit;
mod health;
mod ids;
mod output;
mod status;
mod table;
mod tag;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use leafd::cli::leafctl::{Cli, LeafctlCommand};

use self::exit::Failure;
use self::output::Output;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => exit::status(run(&cli)),
        Err(error) => exit::of_clap(&error),
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let mut out = Output::stdout();
    let done = match &cli.command {
        LeafctlCommand::Next { tag, count } => {
            let mut client = connect::patient(&cli.daemon)?;
            ids::print(*count, &mut out, |n| client.next_many(tag, n))
        }
        LeafctlCommand::Snowflake { count } => {
            let mut client = connect::patient(&cli.daemon)?;
            ids::print(*count, &mut out, |n| client.snowflake_many(n))
        }
        LeafctlCommand::Decode(args) => decode::run(args, &cli.daemon, &mut out),
        LeafctlCommand::Status { json } => {
            status::run(&mut connect::prompt(&cli.daemon)?, *json, &mut out)
        }
        LeafctlCommand::Health { ready } => health::run(&cli.daemon, *ready, &mut out),
        LeafctlCommand::Doctor(args) => doctor::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Tag(command) => tag::run(&cli.daemon, command, &mut out),
        LeafctlCommand::Worker(command) => worker::run(&cli.daemon, command, &mut out),
        LeafctlCommand::Bench(args) => bench::run(&cli.daemon, args, &mut out),
    };
    // Flush even after a failure: the IDs received before it will not come again.
    let finished = out.finish();
    done.and(finished)
}
