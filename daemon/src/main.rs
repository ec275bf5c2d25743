//! `leafd`: parse, load, build, run, exit code. The program also contains leafctl, as `leafd ctl` or
//! under that name, so that one build is enough for the first ID.

// leafctl's files name each other from the root of their own program. Here, that is this file.
#[path = "bin/leafctl/main.rs"]
mod leafctl;
use leafctl::*;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use leafd::app::{self, DivisionRequest};
use leafd::cli;
use leafd::cli::leafd::{Arguments, DivisionCommand, LeafdCommand};

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_else(|| "leafd".into());
    if Path::new(&program).file_name() == Some(OsStr::new("leafctl")) {
        return leafctl::main();
    }
    let arguments = match cli::parse::<Arguments>(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = cli::with_tip_of_ctl(error);
            // clap prints help to standard output and errors to standard error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { app::EX_USAGE } else { 0 });
        }
    };
    app::spare_owner_in_umask();
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        Some(LeafdCommand::Ctl { arguments }) => return ctl(program, arguments),
        None => app::serve(config),
        Some(LeafdCommand::Check { without_secrets }) => app::check(config, !without_secrets),
        Some(LeafdCommand::Schema { dialect }) => app::schema(dialect),
        Some(LeafdCommand::Division(command)) => app::division(config, request(&command)),
        Some(LeafdCommand::DefaultConfig) => app::default_config(),
        Some(LeafdCommand::Adopt { above, lost }) => app::adopt(config, &above, lost),
        #[cfg(feature = "zookeeper")]
        Some(LeafdCommand::HandBack { undo }) => app::hand_back(config, undo),
        Some(LeafdCommand::Audit { files, json }) => app::audit(&files, json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}

const fn request(command: &DivisionCommand) -> DivisionRequest {
    match *command {
        DivisionCommand::Make { shares, block } => DivisionRequest::Make { shares, block },
        DivisionCommand::Show => DivisionRequest::Show,
        DivisionCommand::Close { share } => DivisionRequest::SetClosed { share, closed: true },
        DivisionCommand::Open { share } => DivisionRequest::SetClosed { share, closed: false },
    }
}

/// leafctl, started as a command of `program`.
fn ctl(program: OsString, arguments: Vec<OsString>) -> ExitCode {
    let mut first = program;
    first.push(" ctl");
    leafctl::execute(std::iter::once(first).chain(arguments).collect())
}
