//! Asks leafd for its status and its tags.

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{DaemonStatus, ErrorCode, TagStatus};

use crate::exit::Failure;
use crate::tag;

/// What leafd said at one moment, more or less.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) status: DaemonStatus,
    /// In byte order; an error says why this user may not see them.
    pub(super) tags: Result<Vec<TagStatus>, String>,
}

/// Reads the status and the first `most` tags.
///
/// # Errors
/// The daemon's refusals.
pub(super) fn read(client: &mut Client, most: usize) -> Result<Snapshot, Failure> {
    let status = client.status()?;
    let (mut forbidden, mut old) = (None, false);
    let tags = tag::up_to(most, |after, limit| {
        let page = if old { client.tag_list(after, limit) } else { client.tags_used(after, limit) };
        match page {
            // Only administrators may see tags; everyone may see the rest.
            Err(Error::Refused(error)) if error.code() == ErrorCode::Forbidden => {
                forbidden = Some(error.message);
                Ok(Vec::new())
            }
            // Version 0.1.0 can only list all tags, not those in use.
            Err(Error::Refused(error)) if error.code() == ErrorCode::UnknownCall => {
                old = true;
                client.tag_list(after, limit)
            }
            page => page,
        }
    })?;
    Ok(Snapshot { status, tags: forbidden.map_or(Ok(tags), Err) })
}
