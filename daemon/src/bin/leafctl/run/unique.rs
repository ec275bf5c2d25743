//! Names that no other borrower has.

use std::hash::{BuildHasher, RandomState};

/// 128 random bits from the system, in hexadecimal. The standard library seeds its hash maps with
/// them, so that nobody can guess them.
pub(super) fn random() -> String {
    let keys = RandomState::new();
    format!("{:016x}{:016x}", keys.hash_one(0_u8), keys.hash_one(1_u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_of_one_length() {
        let (first, second) = (random(), random());
        assert_ne!(first, second);
        assert_eq!((first.len(), second.len()), (32, 32));
    }
}
