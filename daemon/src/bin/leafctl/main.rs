//! leafctl: the operator's tool for leafd. A client like any other; what it can do, any program
//! that speaks the protocol can do.

mod ask;
mod bench;
mod connect;
mod decode;
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
use leafd::cli::leafctl::{Cli, Command};

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
        Command::Next { tag, count } => {
            let mut client = connect::patient(&cli.daemon)?;
            ids::print(*count, &mut out, |n| client.next_many(tag, n))
        }
        Command::Snowflake { count } => {
            let mut client = connect::patient(&cli.daemon)?;
            ids::print(*count, &mut out, |n| client.snowflake_many(n))
        }
        Command::Decode(args) => decode::run(args, &cli.daemon, &mut out),
        Command::Status { json } => {
            status::run(&mut connect::prompt(&cli.daemon)?, *json, &mut out)
        }
        Command::Health { ready } => health::run(&cli.daemon, *ready, &mut out),
        Command::Tag(command) => tag::run(&cli.daemon, command, &mut out),
        Command::Worker(command) => worker::run(&cli.daemon, command, &mut out),
        Command::Bench(args) => bench::run(&cli.daemon, args, &mut out),
    };
    // What was made before a failure is given out, above all IDs: they will not come again.
    let finished = out.finish();
    done.and(finished)
}
