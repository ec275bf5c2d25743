//! The scripts that make shells complete leafctl's command lines. They call leafctl again at each Tab,
//! so that it can offer what the running leafd knows.

use std::io;

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use super::leafctl::CompletionShell;

/// The scripts set this variable for the leafctl that they call.
pub const VARIABLE: &str = "LEAFCTL_COMPLETE";

/// The script for a shell.
///
/// # Errors
/// None that is known: the script is written to memory.
pub fn script(shell: CompletionShell) -> io::Result<String> {
    const LEAFCTL: &str = "leafctl";
    let kind: &dyn EnvCompleter = match shell {
        CompletionShell::Bash => &Bash,
        CompletionShell::Zsh => &Zsh,
        CompletionShell::Fish => &Fish,
    };
    let mut script = Vec::new();
    kind.write_registration(VARIABLE, LEAFCTL, LEAFCTL, LEAFCTL, &mut script)?;
    String::from_utf8(script).map_err(io::Error::other)
}
