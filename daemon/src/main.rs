//! `leafd`: parse, load, build, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use leafd::app;
use leafd::cli::leafd::{Arguments, LeafdCommand};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap prints help to standard output and errors to standard error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { app::EX_USAGE } else { 0 });
        }
    };
    app::spare_owner_in_umask();
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        None => app::serve(config),
        Some(LeafdCommand::Check { without_secrets }) => app::check(config, !without_secrets),
        Some(LeafdCommand::Schema { dialect }) => app::schema(dialect),
        Some(LeafdCommand::DefaultConfig) => app::default_config(),
        Some(LeafdCommand::Adopt { above, lost }) => app::adopt(config, &above, lost),
        Some(LeafdCommand::HandBack { undo }) => app::hand_back(config, undo),
        Some(LeafdCommand::Audit { files, json }) => app::audit(&files, json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}
