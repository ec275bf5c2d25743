//! Asks leafd for its status and its tags.

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{DaemonStatus, ErrorCode, TagStatus};

use crate::exit::Failure;
use crate::tag;

/// What leafd said at one moment, more or less.
#[derive(Debug)]
pub(crate) struct Snapshot {
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
    let mut pages = UsedTags::default();
    let tags = tag::up_to(most, |after, limit| pages.read(client, after, limit))?;
    Ok(Snapshot { status, tags: pages.forbidden.map_or(Ok(tags), Err) })
}

/// The pages of the tags that leafd has used, as far as this user may see them.
#[derive(Debug, Default)]
pub(crate) struct UsedTags {
    old: bool,
    /// Why this user may not see them, once leafd said so; then all pages are empty.
    pub(crate) forbidden: Option<String>,
}

impl UsedTags {
    /// At most `limit` tags after `after`.
    ///
    /// # Errors
    /// The daemon's refusals but the two that this handles.
    pub(crate) fn read(
        &mut self,
        client: &mut Client,
        after: &str,
        limit: u32,
    ) -> Result<Vec<TagStatus>, Error> {
        let old = self.old;
        match if old { client.tag_list(after, limit) } else { client.tags_used(after, limit) } {
            // Only administrators may see tags; everyone may see the rest.
            Err(Error::Refused(error)) if error.code() == ErrorCode::Forbidden => {
                self.forbidden = Some(error.message);
                Ok(Vec::new())
            }
            // Version 0.1.0 can only list all tags, not those in use.
            Err(Error::Refused(error)) if error.code() == ErrorCode::UnknownCall => {
                self.old = true;
                client.tag_list(after, limit)
            }
            page => page,
        }
    }
}
