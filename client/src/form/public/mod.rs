//! Public IDs: texts of IDs that outsiders cannot count.
//!
//! Consecutive IDs tell customers how many orders there are, and which address to try next. A
//! *public ID* is the number behind a keyed, reversible permutation: FF1 of NIST SP 800-38G, which is a
//! standard for encryption within a domain, with AES-256. Every public ID is one number and every number
//! one public ID, so it is as unique as the number, and nothing has to be stored.
//!
//! ```
//! use leaf_client::form::public::{KeyId, KeyRing, PublicIdError, PublicKey};
//!
//! // An installation has `KeyRing::read` read its key file instead.
//! let id = KeyId::from_symbol('0').ok_or("no symbol")?;
//! let ring = KeyRing::new([PublicKey::generate(id)?])?;
//!
//! let orders = ring.for_tag("orders");
//! let text = orders.encode(17)?;
//! assert_eq!(text.len(), 15);
//! assert_eq!(orders.decode(&text)?, 17);
//! assert_eq!(orders.decode("0i"), Err(PublicIdError::Character { at: 2, found: 'i', hint: "write 1" }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it hides
//!
//! Without the key, nobody can tell an ID from its public ID, order public IDs by age, count them, or make
//! one that belongs to a given ID. Equal IDs of one tag have equal public IDs. A public ID is no proof:
//! one guess in 2^63 / *n* hits one of *n* IDs in use, and the check symbol is no secret. Check the
//! permissions of whoever shows one.
//!
//! # Constant time
//!
//! Encoding and decoding a number has no branch and no table index that depends on the key, the ID or
//! anything between ID and ciphertext. The crate `aes` promises the same of AES, in hardware and without.
//! Public by nature, and handled in ordinary time: the tag, the key's ID, the text, and whether a number
//! is above 2^63 - 1. Parsing and writing a key file takes ordinary time too; it happens at a start,
//! where nobody chooses the input.
//!
//! Keys and what AES derives from them are wiped when dropped. Copies that the compiler leaves on the stack
//! are not.

mod error;
mod ff1;
mod file;
mod ids;
mod key;
mod ring;
#[cfg(test)]
mod tests;
mod text;

pub use error::{KeyError, KeyFileError, KeyRingError, PublicIdError};
pub use ids::PublicIds;
pub use key::{KeyId, PublicKey};
pub use ring::KeyRing;
