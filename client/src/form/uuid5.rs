//! UUIDs of version 5: a hash of fleet ID, tag and ID. For IDs of a tag, which no UUID has room for
//! together with the name of the tag.

use std::fmt;

use super::{FleetId, Uuid};

/// The namespace of the names that are hashed.
pub const NAMESPACE: Uuid = Uuid::from_bytes([
    0x6c, 0x65, 0x61, 0x66, 0x64, 0x2d, 0x57, 0x5d, 0xa3, 0x1b, 0x5e, 0x0c, 0x8f, 0x41, 0x97, 0x26,
]);

/// Hashes the IDs of one tag of one installation. The name is `FLEET/TAG/ID`, so that any library for
/// UUIDs can compute the same: `uuid5(NAMESPACE, "4be1f0a37c/orders/17")`.
///
/// It is no function that can be turned back, and it is unique as far as SHA-1 finds no two equal
/// hashes of 122 bits by chance: with 10^12 IDs, the chance is about 1 in 10^13.
#[derive(Clone)]
pub struct TagHash {
    /// Has taken in the namespace and all of the name before the ID.
    begun: sha1_smol::Sha1,
}

impl fmt::Debug for TagHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagHash").finish_non_exhaustive()
    }
}

impl TagHash {
    /// Hashes the IDs of `tag` in the installation with this fleet ID.
    #[must_use]
    pub fn new(fleet: FleetId, tag: &str) -> Self {
        let mut begun = sha1_smol::Sha1::new();
        begun.update(&NAMESPACE.bytes());
        begun.update(format!("{fleet}/{tag}/").as_bytes());
        Self { begun }
    }

    /// The UUID of an ID.
    #[must_use]
    pub fn uuid(&self, id: u64) -> Uuid {
        let mut number = String::with_capacity(20);
        super::text::write_padded(id, 1, &mut number);
        let mut hash = self.begun.clone();
        hash.update(number.as_bytes());
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(hash.digest().bytes()).for_each(|(byte, of_hash)| *byte = of_hash);
        bytes[6] = bytes[6] & 0x0f | 0x50;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid::from_bytes(bytes)
    }
}
