//! The fleet ID: random bits that tell one installation of leafd from every other.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

use super::FormError;

/// 40 random bits, chosen once for an installation and the same on all of its hosts.
///
/// A snowflake is unique within an installation. Its UUID has these bits besides, so that no two
/// installations make the same UUID: with 1,000 installations, one pair of them has equal fleet IDs with a
/// chance of 1 in 2 million.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FleetId(u64);

impl FleetId {
    /// The bits of a fleet ID.
    pub const BITS: u32 = 40;

    /// A fleet ID of these bits; `None` if there are more than 40.
    #[must_use]
    pub const fn new(bits: u64) -> Option<Self> {
        if bits >> Self::BITS == 0 { Some(Self(bits)) } else { None }
    }

    /// The lower 40 of these bits.
    pub(super) const fn of_lower(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// A new one, from the randomness of the operating system.
    ///
    /// # Errors
    /// If `/dev/urandom` cannot be read.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self::of_lower(u64::from_le_bytes(bytes)))
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Writes 10 hexadecimal digits.
impl fmt::Display for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010x}", self.0)
    }
}

impl fmt::Debug for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetId({self})")
    }
}

/// Reads what [`fmt::Display`] writes, and nothing else.
impl FromStr for FleetId {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 10 && text.bytes().all(is_hex))
            .then(|| u64::from_str_radix(text, 16).ok().map(Self))
            .flatten()
            .ok_or_else(|| FormError::BadFleet(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_id_is_read_as_it_is_written_and_nothing_else_is() {
        let fleet: FleetId = "00000000ff".parse().unwrap();
        assert_eq!((fleet.bits(), fleet.to_string().as_str()), (255, "00000000ff"));
        for text in
            ["", "ff", "00000000FF", "00000000fg", "000000000ff", "+0000000ff", "00000000f\u{e9}"]
        {
            assert_eq!(text.parse::<FleetId>(), Err(FormError::BadFleet(text.to_owned())));
        }
        assert_eq!(FleetId::new(1 << 40), None);
        assert_ne!(FleetId::random().unwrap(), FleetId::random().unwrap());
    }
}
