//! `leafd`: parse, load, build, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use leafd::app;
use leafd::cli::leafd::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // To standard output when it is help, to standard error when it is not.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { app::EX_USAGE } else { 0 });
        }
    };
    app::spare_owner_in_umask();
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        None => app::serve(config),
        Some(Command::Check { without_secrets }) => app::check(config, !without_secrets),
        Some(Command::Schema { dialect }) => app::schema(dialect),
        Some(Command::DefaultConfig) => app::default_config(),
        Some(Command::Adopt { above, lost }) => app::adopt(config, &above, lost),
        Some(Command::HandBack { undo }) => app::hand_back(config, undo),
        Some(Command::Audit { files, json }) => app::audit(&files, json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}
