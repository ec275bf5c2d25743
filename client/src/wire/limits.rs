//! The constants of the protocol: the magic, the version, and every limit that both sides check.

/// The first field of every `Hello`. It lets the daemon refuse a peer that speaks another protocol.
pub const MAGIC: [u8; 4] = *b"LEAF";

/// The protocol version of this crate.
pub const VERSION: u16 = 1;

/// The limit on the characters of a tag, from Leaf's `biz_tag varchar(128)`.
pub const MAX_TAG_CHARS: usize = 128;

/// The limit on the characters of a description, from Leaf's `description varchar(256)`.
pub const MAX_DESCRIPTION_CHARS: usize = 256;

/// The limit on the characters of a worker ID's owner.
pub const MAX_OWNER_CHARS: usize = 256;

/// The limit on the characters of the address of a worker ID's owner.
pub const MAX_ADDRESS_CHARS: usize = 256;

/// The limit on the characters of a pool's name: `a` to `z`, `0` to `9` and `-`.
pub const MAX_POOL_CHARS: usize = 32;

/// The limit on the characters of a borrower's name, which are printable ASCII.
pub const MAX_BORROWER_CHARS: usize = 64;

/// The limit on the characters of a claim's name.
pub const MAX_CLAIM_CHARS: usize = 256;

/// The limit on the characters of a cgroup's path.
pub const MAX_CGROUP_CHARS: usize = 512;

/// The limit on a request body in bytes. The largest valid one (`WorkerBorrow` with a cgroup of 512 and a
/// claim of 256 four-byte characters) has 3,245.
pub const MAX_REQUEST_LEN: usize = 4096;

/// The limit on a response body in bytes. The largest valid one is a full page of `Workers`.
pub const MAX_RESPONSE_LEN: usize = 256 * 1024;

/// The limit on the tags in one `Tags` or `Forecasts` reply.
pub const MAX_TAGS_PER_PAGE: u32 = 100;

/// The limit on the numbers or public IDs in one `PublicEncode` or `PublicDecode`.
pub const MAX_PUBLIC_IDS: usize = 32;

/// The limit on the worker IDs in one `Workers` reply. With the longest owners and addresses they
/// fill four fifths of [`MAX_RESPONSE_LEN`].
pub const MAX_WORKERS_PER_PAGE: u32 = 100;

/// The ID of unsolicited responses: `Goodbye`, and errors about the connection or about a request
/// without a usable ID.
pub const UNSOLICITED: u64 = 0;
