//! leafctl: the operator's tool for leafd. It is a client like any other: whatever it does, any
//! program that speaks the protocol can do. `doctor` alone also looks at the configuration, the host,
//! the store and the registry. leafd contains leafctl too, as `leafd ctl`; that is why its modules are
//! `pub(crate)`: `main.rs` of leafd brings them to its own root.

#![allow(clippy::disallowed_methods, reason = "leafctl measures on the real host")]

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod decode;
pub(crate) mod doctor;
pub(crate) mod exit;
pub(crate) mod explain;
pub(crate) mod forecast;
pub(crate) mod forms;
pub(crate) mod health;
pub(crate) mod ids;
pub(crate) mod keys;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod name;
pub(crate) mod next;
pub(crate) mod output;
pub(crate) mod public;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod similar;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod tag;
pub(crate) mod text;
pub(crate) mod top;
pub(crate) mod version;
pub(crate) mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use leafd::cli;
use leafd::cli::leafctl::{Cli, LeafctlCommand};

use self::exit::{ErrorForm, Failure};
use self::output::Output;

/// leafctl as a program of its own.
pub(crate) fn main() -> ExitCode {
    if let Some(done) = run::stage::entered(&mut std::env::args_os()) {
        return done;
    }
    // The shell asks, while the operator types.
    if let Some(done) = completions::answer() {
        return done;
    }
    execute(std::env::args_os().collect())
}

/// Parses the command line and executes it. Its first word is how leafctl was started, such as
/// `leafctl` or `target/release/leafd ctl`.
pub(crate) fn execute(words: Vec<OsString>) -> ExitCode {
    name::remember(words.first());
    let form = error_form(&words);
    match cli::parse::<Cli>(words) {
        Ok(cli) => exit::status(dispatch(&cli), form),
        Err(error) => exit::of_clap(&error, form),
    }
}

/// How errors are printed: as JSON if the command line has `--json`, even if it is wrong otherwise.
fn error_form(words: &[OsString]) -> ErrorForm {
    let mut options = words.iter().skip(1).take_while(|word| *word != "--");
    if options.any(|word| word == "--json") { ErrorForm::Json } else { ErrorForm::Text }
}

fn dispatch(cli: &Cli) -> Result<(), Failure> {
    let mut out = Output::stdout();
    let done = match &cli.command {
        LeafctlCommand::Next { tag, count, form, json } => forms::of_tag(form, tag, &cli.daemon)
            .and_then(|(tag, form)| {
                out.print_ids(*json, Some(&tag), form);
                next::run(&cli.daemon, &tag, *count, &mut out)
            }),
        LeafctlCommand::Snowflake { count, form, json } => {
            let mut client = connect::patient(&cli.daemon)?;
            forms::of_snowflakes(form, &cli.daemon, &mut client).and_then(|form| {
                out.print_ids(*json, None, form);
                let (patience, waiting) = (cli.daemon.timeout(), &mut ids::AtTheTerminal);
                ids::print(*count, patience, &mut out, waiting, |n| client.snowflake_many(n))
            })
        }
        LeafctlCommand::Decode(args) => decode::run(args, &cli.daemon, &mut out),
        LeafctlCommand::Status(args) => status::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Top(args) => top::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Forecast(args) => forecast::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Health { ready, json } => health::run(&cli.daemon, *ready, *json, &mut out),
        LeafctlCommand::Doctor(args) => doctor::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Tag(command) => tag::run(&cli.daemon, command, &mut out),
        LeafctlCommand::Worker(command) => worker::run(&cli.daemon, command, &mut out),
        LeafctlCommand::Store(command) => store::run(command, &mut out),
        LeafctlCommand::Run(args) => run::run(&cli.daemon, args),
        LeafctlCommand::Explain(args) => explain::run(args, &mut out),
        LeafctlCommand::Bench(args) => bench::run(&cli.daemon, args, &mut out),
        LeafctlCommand::Version { json } => version::run(&cli.daemon, *json, &mut out),
        LeafctlCommand::Completions { shell } => completions::print(*shell, &mut out),
    };
    // Flush even after a failure: the IDs received before it will not come again.
    let finished = out.finish();
    done.and(finished)
}
