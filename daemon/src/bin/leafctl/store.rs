//! `leafctl store`: what an operator says about a store that has lost leases. It asks the database itself.

use std::io::Write;

use leafd::app::{AcceptLossError, AcceptLossRequest, accept_loss};
use leafd::cli::leafctl::StoreCommand;

use crate::exit::Failure;
use crate::output::{Output, harmless};

/// Carries out a command.
///
/// # Errors
/// When the database cannot be reached, or the command does not fit what is there.
pub(crate) fn run<W: Write>(command: &StoreCommand, out: &mut Output<W>) -> Result<(), Failure> {
    let StoreCommand::AcceptLoss { config, epoch, margin } = command;
    let request = AcceptLossRequest { epoch: *epoch, margin: margin.unwrap_or(0) };
    let lines = accept_loss(config.as_deref(), request).map_err(|error| match error {
        AcceptLossError::Refused(why) => Failure::Usage(why),
        AcceptLossError::Unavailable(why) => Failure::Unavailable(why),
    })?;
    lines.iter().try_for_each(|line| out.line(harmless(line)))
}
