//! The constants of the protocol: magic, version, and the limit of everything that has one.

/// First bytes of every `Hello`: a peer that speaks something else is told so at once.
pub const MAGIC: [u8; 4] = *b"LEAF";

/// The version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// Most characters of a biz tag, from Leaf's `biz_tag varchar(128)`.
pub const MAX_TAG_CHARS: usize = 128;

/// Most characters of a description, from Leaf's `description varchar(256)`.
pub const MAX_DESCRIPTION_CHARS: usize = 256;

/// Most characters of the owner of a worker ID, which is an identity.
pub const MAX_OWNER_CHARS: usize = 256;

/// Most characters of the address of a worker ID's owner.
pub const MAX_ADDRESS_CHARS: usize = 256;

/// Largest request body in bytes. The largest valid one (`TagCreate` with a tag of 128 and a
/// description of 256 four-byte characters) has 1,576.
pub const MAX_REQUEST_LEN: usize = 4096;

/// Largest response body in bytes. The largest valid one is a full page of `Workers`.
pub const MAX_RESPONSE_LEN: usize = 256 * 1024;

/// Most tags in one `Tags` answer.
pub const MAX_TAGS_PER_PAGE: u32 = 100;

/// Most worker IDs in one `Workers` answer: with the longest owners and addresses they fill four
/// fifths of the largest response.
pub const MAX_WORKERS_PER_PAGE: u32 = 100;

/// Request ID of what the daemon says unasked: an error about the connection, or `Goodbye`.
pub const UNSOLICITED: u64 = 0;
