//! Tests of public IDs. All keys are fixed, so that no test depends on chance.

mod file;
mod keys;
mod looks_random;
mod randomness;
mod standard;
mod texts;
mod vectors;

use super::*;

/// A key of fixed bytes, which differ from those of any other ID.
fn key(id: u8) -> PublicKey {
    let bytes = std::array::from_fn(|i| (i as u8).wrapping_mul(73) ^ id.wrapping_add(1));
    PublicKey::new(KeyId::new(id).unwrap(), &bytes).unwrap()
}

fn ring() -> KeyRing {
    KeyRing::new([key(0)]).unwrap()
}
