//! Keys of public IDs. They are wiped when dropped, and `Debug` does not show them.

use std::fmt;
use std::io;

use aes::Aes256Enc;
use aes::cipher::KeyInit;
use zeroize::Zeroizing;

use super::{KeyError, text};

/// Bytes of a key: AES-256.
pub(super) const KEY_BYTES: usize = 32;

/// The ID of a key, from 0 to 31. It is the first symbol of every public ID that the key makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u8);

impl KeyId {
    /// `None` above 31.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 32 { Some(Self(value)) } else { None }
    }

    /// The ID that a symbol of the alphabet `0123456789abcdefghjkmnpqrstvwxyz` stands for.
    #[must_use]
    pub fn from_symbol(symbol: char) -> Option<Self> {
        text::value(symbol).map(Self)
    }

    /// The number, from 0 to 31.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The symbol.
    #[must_use]
    pub const fn symbol(self) -> char {
        text::symbol(self.0)
    }

    pub(super) const fn of_low_bits(value: u8) -> Self {
        Self(value & 31)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.symbol().fmt(out)
    }
}

/// A key of public IDs: an ID and 32 random bytes.
pub struct PublicKey {
    id: KeyId,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    /// AES wipes its round keys itself.
    aes: Aes256Enc,
}

impl PublicKey {
    /// Makes a key of these bytes, which have to be random.
    ///
    /// # Errors
    /// [`KeyError::Weak`] if all bytes are equal, which is a placeholder and no key.
    pub fn new(id: KeyId, bytes: &[u8; KEY_BYTES]) -> Result<Self, KeyError> {
        let [first, others @ ..] = bytes;
        if others.iter().all(|byte| byte == first) {
            return Err(KeyError::Weak);
        }
        Ok(Self { id, bytes: Zeroizing::new(*bytes), aes: Aes256Enc::new(bytes.into()) })
    }

    /// Makes a new key with the kernel's random numbers.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn generate(id: KeyId) -> io::Result<Self> {
        use rustix::rand::{GetRandomFlags, getrandom};
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let got =
            rustix::io::retry_on_intr(|| getrandom(bytes.as_mut_slice(), GetRandomFlags::empty()))?;
        if got != KEY_BYTES {
            return Err(io::Error::other("the kernel gave too few random bytes"));
        }
        Self::new(id, &bytes).map_err(io::Error::other)
    }

    /// The key's ID.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Writes the key as a line of a key file: **whoever reads the line has the key**.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_line(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut digits = Zeroizing::new([0; 2 * KEY_BYTES]);
        for (to, byte) in digits.chunks_exact_mut(2).zip(*self.bytes) {
            to.copy_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
        write!(out, "{} ", self.id)?;
        out.write_all(digits.as_slice())?;
        out.write_all(b"\n")
    }

    pub(super) const fn aes(&self) -> &Aes256Enc {
        &self.aes
    }

    pub(super) fn has_bytes_of(&self, other: &Self) -> bool {
        *self.bytes == *other.bytes
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PublicKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The hex digit of a nibble, in lowercase.
const fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}
