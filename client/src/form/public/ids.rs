//! The public IDs of one tag.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::ff1::{Domain, Ff1};
use super::{PublicIdError, PublicKey, text};

/// IDs have 63 bits: 31 in the left half and 32 in the right one. The compiler evaluates this.
const DOMAIN: Domain = Domain::new(2, 63).unwrap();

/// Bits of the right half.
const RIGHT_BITS: u32 = 32;

/// Separates these hashes from any others that somebody makes of tags.
const TWEAK_LABEL: &[u8] = b"leafd public ID\0";

/// Bytes of a tweak: a whole block, so that a tag costs as much as no tag.
const TWEAK_BYTES: usize = 16;

/// Makes the public IDs of one tag, and reads them. Comes from [`KeyRing`](super::KeyRing).
///
/// An ID costs ten AES blocks.
#[derive(Clone)]
pub struct PublicIds {
    keys: Arc<[PublicKey]>,
    /// For each key, its permutation of this tag's IDs.
    permutations: Box<[Ff1]>,
}

impl PublicIds {
    pub(super) fn new(keys: Arc<[PublicKey]>, tag: &str) -> Self {
        let tweak = tweak(tag);
        let permutations = keys.iter().map(|key| Ff1::new(key.aes(), DOMAIN, &tweak)).collect();
        Self { keys, permutations }
    }

    /// The public ID of `id`, by the first key of the ring.
    ///
    /// # Errors
    /// [`PublicIdError::TooLarge`] if `id` is above `i64::MAX`.
    pub fn encode(&self, id: u64) -> Result<String, PublicIdError> {
        let mut out = String::with_capacity(text::LENGTH);
        self.encode_into(id, &mut out)?;
        Ok(out)
    }

    /// Appends the public ID of `id`, by the first key of the ring: 15 characters of ASCII.
    ///
    /// # Errors
    /// [`PublicIdError::TooLarge`] if `id` is above `i64::MAX`.
    pub fn encode_into(&self, id: u64, out: &mut String) -> Result<(), PublicIdError> {
        if i64::try_from(id).is_err() {
            return Err(PublicIdError::TooLarge(id));
        }
        // A ring is never empty.
        for (key, permutation) in self.keyed().take(1) {
            text::write(key.id(), join(permutation.encrypt(key.aes(), split(id))), out);
        }
        Ok(())
    }

    /// The ID behind a public ID, by the key that made it. A public ID of another tag decodes to some
    /// number or other: nothing in it says which tag it is of.
    ///
    /// # Errors
    /// What is wrong with the text and where, or [`PublicIdError::UnknownKey`].
    pub fn decode(&self, public_id: &str) -> Result<u64, PublicIdError> {
        let (key_id, ciphertext) = text::read(public_id)?;
        let (key, permutation) = self
            .keyed()
            .find(|(key, _)| key.id() == key_id)
            .ok_or(PublicIdError::UnknownKey(key_id))?;
        Ok(join(permutation.decrypt(key.aes(), split(ciphertext))))
    }

    fn keyed(&self) -> impl Iterator<Item = (&PublicKey, &Ff1)> {
        self.keys.iter().zip(&self.permutations)
    }

    /// The permutation by the first key, as a number.
    #[cfg(test)]
    pub(super) fn permute(&self, id: u64) -> u64 {
        text::read(&self.encode(id).unwrap()).unwrap().1
    }
}

impl fmt::Debug for PublicIds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PublicIds").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Ties the permutation to the tag, so that equal numbers of two tags have different public IDs.
fn tweak(tag: &str) -> [u8; TWEAK_BYTES] {
    let hash = Sha256::new().chain_update(TWEAK_LABEL).chain_update(tag).finalize();
    let mut tweak = [0; TWEAK_BYTES];
    tweak.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    tweak
}

/// The halves of a number of 63 bits.
const fn split(number: u64) -> (u64, u64) {
    (number >> RIGHT_BITS, number & ((1 << RIGHT_BITS) - 1))
}

/// The number with these halves.
const fn join((left, right): (u64, u64)) -> u64 {
    left << RIGHT_BITS | right
}
