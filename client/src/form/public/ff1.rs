//! FF1, the format-preserving encryption of NIST SP 800-38G, on numbers that fit a `u64` per half.
//!
//! A Feistel network of ten rounds over the two halves of a text of digits. Its round function is the
//! CBC-MAC of AES over a header, the tweak, the round and one half. Header and tweak never change, so
//! [`Ff1`] computes their part once, and a round is one AES block.
//!
//! Nothing here branches on, or indexes by, a half or a key. The one branch in the arithmetic depends on
//! the modulus, and only a modulus that is no power of two divides; public IDs have none.

use aes::cipher::consts::U16;
use aes::cipher::{Block, BlockCipherEncrypt};

/// Rounds of FF1.
const ROUNDS: u8 = 10;

/// What an instance permutes: texts of `length` digits to the base `radix`.
///
/// A text is two numbers. The left half has the first `length / 2` digits, the right half the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain {
    radix: u32,
    length: u32,
    /// How many left halves there are: the standard's radix^u.
    left_size: u64,
    /// How many right halves there are: the standard's radix^v.
    right_size: u64,
}

impl Domain {
    /// `None` if the radix is not from 2 to 2^16, if the length is below 2, or if a half does not fit.
    pub(super) const fn new(radix: u32, length: u32) -> Option<Self> {
        if radix < 2 || radix > 1 << 16 || length < 2 {
            return None;
        }
        let left = length / 2;
        // `?` is not for const functions.
        match ((radix as u64).checked_pow(left), (radix as u64).checked_pow(length - left)) {
            (Some(left_size), Some(right_size)) => {
                Some(Self { radix, length, left_size, right_size })
            }
            _ => None,
        }
    }

    /// The bytes that a half takes in the input of a round: the standard's b, at most 8.
    const fn half_bytes(self) -> u32 {
        (u64::BITS - (self.right_size - 1).leading_zeros()).div_ceil(8)
    }

    /// The bytes that a round takes from the output of AES: the standard's d, at most 12.
    const fn output_bytes(self) -> u32 {
        4 * self.half_bytes().div_ceil(4) + 4
    }

    /// The header of every input, the standard's P, as a big-endian number.
    fn header(self, tweak_bytes: usize) -> u128 {
        // Version 1, method 2 (FF1), one addition.
        let fixed = 0x0001_0201_u128 << 104;
        let left_length = u128::from(self.length / 2 % 256);
        fixed
            | u128::from(self.radix) << 80
            | u128::from(ROUNDS) << 72
            | left_length << 64
            | u128::from(self.length) << 32
            | (tweak_bytes as u128 & u128::from(u32::MAX))
    }
}

/// AES under a key of any length.
pub(super) trait Aes: BlockCipherEncrypt<BlockSize = U16> + Sized {
    /// Encrypts one block, as a big-endian number.
    fn encrypt_number(&self, block: u128) -> u128 {
        let mut block = Block::<Self>::from(block.to_be_bytes());
        self.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}

impl<C: BlockCipherEncrypt<BlockSize = U16>> Aes for C {}

/// The permutation of one domain under one key and one tweak. The key is passed to each call.
#[derive(Clone)]
pub(super) struct Ff1 {
    domain: Domain,
    /// What the last block of every CBC-MAC is added to: the MAC of all blocks before it, and the end
    /// of the tweak if that is in the last block.
    start: u128,
}

impl Ff1 {
    pub(super) fn new(aes: &impl Aes, domain: Domain, tweak: &[u8]) -> Self {
        // Zeros fill the blocks up between the tweak and the bytes of the round, which come last.
        let blocks = (tweak.len() + 1 + domain.half_bytes() as usize).div_ceil(16);
        let chunks = tweak.chunks(16).chain(std::iter::repeat(&[][..])).take(blocks);
        let start = chunks.fold(domain.header(tweak.len()), |state, chunk| {
            let mut block = [0; 16];
            block.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            aes.encrypt_number(state) ^ u128::from_be_bytes(block)
        });
        Self { domain, start }
    }

    /// Encrypts a text, given as its halves.
    pub(super) fn encrypt(&self, aes: &impl Aes, (left, right): (u64, u64)) -> (u64, u64) {
        let (mut a, mut b) = (left, right);
        for round in 0..ROUNDS {
            let size = self.size(round);
            let sum = reduce(u128::from(a) + self.round(aes, round, b), size);
            (a, b) = (b, sum);
        }
        (a, b)
    }

    /// Decrypts a text, given as its halves.
    pub(super) fn decrypt(&self, aes: &impl Aes, (left, right): (u64, u64)) -> (u64, u64) {
        let (mut a, mut b) = (left, right);
        for round in (0..ROUNDS).rev() {
            let size = self.size(round);
            let negative = size - reduce(self.round(aes, round, a), size);
            let difference = reduce(u128::from(b) + u128::from(negative), size);
            (a, b) = (difference, a);
        }
        (a, b)
    }

    /// How many values the half has that a round changes.
    const fn size(&self, round: u8) -> u64 {
        if round.is_multiple_of(2) { self.domain.left_size } else { self.domain.right_size }
    }

    /// The round function: the number y of the standard, below 2^96.
    fn round(&self, aes: &impl Aes, round: u8, half: u64) -> u128 {
        let end = u128::from(round) << (8 * self.domain.half_bytes()) | u128::from(half);
        aes.encrypt_number(self.start ^ end) >> (u128::BITS - 8 * self.domain.output_bytes())
    }
}

/// `number` modulo `size`. A size that is a power of two masks, so that public IDs never divide: the time
/// of a division depends on the numbers.
const fn reduce(number: u128, size: u64) -> u64 {
    if size.is_power_of_two() { number as u64 & (size - 1) } else { (number % size as u128) as u64 }
}
