//! The keys of public IDs.

use std::path::Path;

use leaf_client::form::public::KeyRing;

use crate::exit::Failure;

/// The keys in a file, if there is one.
///
/// # Errors
/// `Usage` with the remedy. It shows nothing of the file.
pub(crate) fn keys(file: Option<&Path>) -> Result<Option<KeyRing>, Failure> {
    file.map(KeyRing::read).transpose().map_err(|error| Failure::Usage(error.to_string()))
}
