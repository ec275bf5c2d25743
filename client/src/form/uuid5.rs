//! UUIDs of version 5: a hash of fleet ID, tag and ID. For IDs of a tag, which no UUID has room for
//! together with the name of the tag.

use std::fmt;

use sha1::block_api::compress;

use super::{FleetId, Uuid};

/// The namespace of the names that are hashed.
pub const NAMESPACE: Uuid = Uuid::from_bytes([
    0x6c, 0x65, 0x61, 0x66, 0x64, 0x2d, 0x57, 0x5d, 0xa3, 0x1b, 0x5e, 0x0c, 0x8f, 0x41, 0x97, 0x26,
]);

/// SHA-1 works on blocks of so many bytes.
const BLOCK: usize = 64;

/// The state of SHA-1 before the first block, of FIPS 180-4.
const BEGIN: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// Hashes the IDs of one tag of one installation. The name is `FLEET/TAG/ID`, so that any library for
/// UUIDs can compute the same: `uuid5(NAMESPACE, "4be1f0a37c/orders/17")`.
///
/// It is no function that can be turned back, and it is unique as far as SHA-1 finds no two equal
/// hashes of 122 bits by chance: with 10^12 IDs, the chance is about 1 in 10^13.
#[derive(Clone)]
pub struct TagHash {
    /// SHA-1 after the whole blocks of the namespace and of the name before the ID.
    state: [u32; 5],
    /// What comes after these blocks, and zeros.
    rest: [u8; BLOCK],
    rest_len: usize,
    /// How many bytes both are.
    len: usize,
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
        let mut before = NAMESPACE.bytes().to_vec();
        before.extend_from_slice(format!("{fleet}/{tag}/").as_bytes());
        let (blocks, after) = before.as_chunks::<BLOCK>();
        let (mut state, mut rest) = (BEGIN, [0; BLOCK]);
        compress(&mut state, blocks);
        rest.iter_mut().zip(after).for_each(|(to, from)| *to = *from);
        Self { state, rest, rest_len: after.len(), len: before.len() }
    }

    /// The UUID of an ID.
    #[must_use]
    pub fn uuid(&self, id: u64) -> Uuid {
        let (text, digits) = terminated(id);
        // The rest and the number fill one block or two; SHA-1 ends a message with a one bit, zeros, and its
        // length in bits.
        let mut blocks = [self.rest, [0; BLOCK]];
        let end = self.rest_len + digits + 1;
        if let (Some(to), Some(from)) =
            (blocks.as_flattened_mut().get_mut(self.rest_len..end), text.get(DIGITS - digits..))
        {
            to.copy_from_slice(from);
        }
        let count = if end + 8 > BLOCK { 2 } else { 1 };
        let bits = (self.len + digits) as u64 * 8;
        let used = blocks.get_mut(..count).unwrap_or_default();
        if let Some(last) = used.as_flattened_mut().last_chunk_mut() {
            *last = bits.to_be_bytes();
        }
        let mut state = self.state;
        compress(&mut state, used);
        let [a, b, c, d, _] = state.map(u128::from);
        let hash = a << 96 | b << 64 | c << 32 | d;
        let mut bytes = hash.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x50;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid::from_bytes(bytes)
    }
}

/// The most digits of a number.
const DIGITS: usize = 20;

/// The digits of a number at the end of the array, before the byte that ends a message, and how many there are.
fn terminated(id: u64) -> ([u8; DIGITS + 1], usize) {
    let mut text = [0x80; DIGITS + 1];
    let (mut left, mut digits) = (id, 0);
    for place in text.iter_mut().rev().skip(1) {
        *place = b'0' + (left % 10) as u8;
        (left, digits) = (left / 10, digits + 1);
        if left == 0 {
            break;
        }
    }
    (text, digits)
}

#[cfg(test)]
mod tests {
    use sha1::{Digest, Sha1};

    use super::*;

    #[test]
    fn names_of_every_length_hash_as_when_they_are_hashed_as_a_whole() {
        let fleet: FleetId = "4be1f0a37c".parse().unwrap();
        for length in 0..200 {
            let tag = "x".repeat(length);
            let hash = TagHash::new(fleet, &tag);
            for id in [0, 7, 10, 12_345, 1 << 40, i64::MAX as u64, u64::MAX] {
                let name = format!("{fleet}/{tag}/{id}");
                let whole = Sha1::new().chain_update(NAMESPACE.bytes()).chain_update(&name);
                let mut theirs = [0; 16];
                theirs.iter_mut().zip(whole.finalize()).for_each(|(to, from)| *to = from);
                theirs[6] = theirs[6] & 0x0f | 0x50;
                theirs[8] = theirs[8] & 0x3f | 0x80;
                assert_eq!(hash.uuid(id).bytes(), theirs, "{name}");
            }
        }
    }
}
