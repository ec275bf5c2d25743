//! What can be wrong with a public ID, a key or a key file. No message shows key material.

use std::path::PathBuf;

use super::KeyId;

/// Why an ID has no public ID, or a text is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicIdError {
    /// The number is no ID of leafd.
    #[error("{0} is above 2^63 - 1, so it is no ID of leafd")]
    TooLarge(u64),
    /// The text is too short or too long.
    #[error("{got} characters instead of 15")]
    Length {
        /// How many the text has.
        got: usize,
    },
    /// A character that cannot stand there.
    #[error("character {at} is {found:?}: {hint}")]
    Character {
        /// Its position; the first character is 1.
        at: usize,
        /// The character.
        found: char,
        /// What to write instead.
        hint: &'static str,
    },
    /// The check symbol does not fit the other characters.
    #[error("the check symbol does not fit: at least one character is mistyped")]
    Check,
    /// The text is well formed, but its key is not on the ring.
    #[error(
        "there is no key {0}: the key file has lost it, or another installation made this public ID"
    )]
    UnknownKey(KeyId),
}

/// Why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The line is not two words.
    #[error("a line has two words: the key's ID and 64 hex digits")]
    Words,
    /// The key ID is no symbol of the alphabet.
    #[error("the key ID is one character of 0123456789abcdefghjkmnpqrstvwxyz")]
    Id,
    /// The key has the wrong number of digits.
    #[error(
        "the key has {got} characters instead of 64 hex digits: openssl rand -hex 32 makes one"
    )]
    Length {
        /// How many characters the word has.
        got: usize,
    },
    /// The key has a character that is no hex digit.
    #[error("character {at} of the key is no hex digit: openssl rand -hex 32 makes a key")]
    NotHex {
        /// Its position; the first character of the key is 1.
        at: usize,
    },
    /// All bytes of the key are equal.
    #[error("the key repeats one byte, so it is not random: openssl rand -hex 32 makes one")]
    Weak,
    /// Another key has this ID.
    #[error("an earlier key has the ID {0} already: give this one a free ID")]
    SameId(KeyId),
    /// Another ID has this key.
    #[error("it is the key {0} again: openssl rand -hex 32 makes a new one")]
    SameKey(KeyId),
}

/// Why keys do not make a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// There is no key at all.
    #[error(
        "there is no key: write a line with an ID and 64 hex digits, \
         such as the output of: echo \"0 $(openssl rand -hex 32)\""
    )]
    NoKey,
    /// A line of the text is wrong.
    #[error("line {line}: {error}")]
    Line {
        /// Its number; the first line is 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        error: KeyError,
    },
    /// A key that was passed does not go with the others.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The path leads to something else than a file.
    #[error("the key file {} is no regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Users other than the owner can get at the keys.
    #[error(
        "others than its owner can read or change the key file {} (mode {mode:04o}): \
         chmod g-w,o-rw {}", path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is far larger than any key file.
    #[error("the key file {} is larger than {limit} bytes: is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size in bytes.
        limit: usize,
    },
    /// The file is no text.
    #[error("the key file {} is not UTF-8: is it the right file?", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The text is wrong.
    #[error("the key file {}: {source}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyRingError,
    },
}
