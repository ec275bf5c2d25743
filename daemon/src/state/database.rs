//! Which database the ranges in the journal were leased from.

use std::fmt;
use std::str::FromStr;

use super::mark::FileMark;
use super::properties::{Damage, Properties};

use crate::environment::Environment;

/// The file's name in the state directory.
pub(crate) const FILE: &str = "database.properties";

/// Identifies one database: 128 random bits that were written into it when its tables were made. Its
/// text is 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DatabaseIdentity(u128);

impl DatabaseIdentity {
    /// A new identity.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn random(environment: &Environment) -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        environment.fill_random(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for DatabaseIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The text is not an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not 32 hexadecimal digits")]
pub(crate) struct NoIdentity(String);

impl FromStr for DatabaseIdentity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = if digits { u128::from_str_radix(text, 16).ok() } else { None };
        number.map(Self).ok_or_else(|| NoIdentity(text.chars().take(40).collect()))
    }
}

/// What this host has recorded of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordedDatabase {
    /// `None` for a shared database without the table of the identity.
    pub(crate) identity: Option<DatabaseIdentity>,
    /// The file of an embedded database.
    pub(crate) file: Option<FileMark>,
}

/// The file's content. `place` is where the database was found, as in the owner file.
#[must_use]
pub(crate) fn write(place: &str, recorded: RecordedDatabase) -> String {
    let mut properties = Properties::default();
    properties.set("version", 1);
    properties.set("store", place);
    if let Some(identity) = recorded.identity {
        properties.set("identity", identity);
    }
    if let Some(file) = recorded.file {
        properties.set("file", file.write());
    }
    properties.write("Which database the ranges in segments.journal come from. Written by leafd.")
}

/// Reads the file's content: what is recorded of the database at `place`. Nothing, if the record is of a
/// database elsewhere.
///
/// # Errors
/// When the file is damaged or of another version.
pub(crate) fn read(content: &[u8], place: &str) -> Result<RecordedDatabase, Damage> {
    let properties = Properties::read(content)?;
    match properties.number("version")? {
        1 => {}
        other => return Err(Damage::Content(format!("version {other} is not known"))),
    }
    if properties.get("store")? != place {
        return Ok(RecordedDatabase::default());
    }
    let identity = properties.get("identity").ok().map(str::parse::<DatabaseIdentity>).transpose();
    let identity = identity.map_err(|error| Damage::Content(error.to_string()))?;
    let file = properties.get("file").ok().and_then(FileMark::read);
    Ok(RecordedDatabase { identity, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_and_read() {
        for number in [0, 1, u128::MAX] {
            let identity = DatabaseIdentity(number);
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
        for text in ["", "1", "+0000000000000000000000000000001", &"0".repeat(33), &"é".repeat(16)]
        {
            assert!(text.parse::<DatabaseIdentity>().is_err(), "{text}");
        }
        let drawn = || DatabaseIdentity::random(&Environment::system()).unwrap();
        assert_ne!(drawn(), drawn());
    }

    #[test]
    fn a_record_is_read_only_for_its_own_place() {
        let identity = "000102030405060708090a0b0c0d0e0f".parse().ok();
        let recorded = RecordedDatabase { identity, file: FileMark::read("7@8") };
        for recorded in [recorded, RecordedDatabase::default()] {
            let text = write("sqlite", recorded);
            assert_eq!(read(text.as_bytes(), "sqlite"), Ok(recorded));
            assert_eq!(read(text.as_bytes(), "mysql db/leaf"), Ok(RecordedDatabase::default()));
        }
        assert!(read(b"store=sqlite\n", "sqlite").is_err());
    }
}
