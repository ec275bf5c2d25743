//! Which database the ranges in the journal were leased from.

use super::mark::Mark;
use super::properties::{Damage, Properties};
use crate::segment::store::{Identity, Recorded};

/// Its name in the state directory.
pub const FILE: &str = "database.properties";

/// The file's content. `place` is where the database was found, as in the owner file.
#[must_use]
pub fn write(place: &str, recorded: Recorded) -> String {
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

/// Reads the file's content: what is recorded of the database at `place`. Of one that was found
/// elsewhere nothing is known here.
///
/// # Errors
/// When it is damaged or of another version.
pub fn read(content: &[u8], place: &str) -> Result<Recorded, Damage> {
    let properties = Properties::read(content)?;
    match properties.number("version")? {
        1 => {}
        other => return Err(Damage::Content(format!("version {other} is not known"))),
    }
    if properties.get("store")? != place {
        return Ok(Recorded::default());
    }
    let identity = properties.get("identity").ok().map(str::parse::<Identity>).transpose();
    let identity = identity.map_err(|error| Damage::Content(error.to_string()))?;
    let file = properties.get("file").ok().and_then(Mark::read);
    Ok(Recorded { identity, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_for_its_own_place_alone() {
        let identity = "000102030405060708090a0b0c0d0e0f".parse().ok();
        let recorded = Recorded { identity, file: Mark::read("7@8") };
        for recorded in [recorded, Recorded::default()] {
            let text = write("sqlite", recorded);
            assert_eq!(read(text.as_bytes(), "sqlite"), Ok(recorded));
            assert_eq!(read(text.as_bytes(), "mysql db/leaf"), Ok(Recorded::default()));
        }
        assert!(read(b"store=sqlite\n", "sqlite").is_err());
    }
}
