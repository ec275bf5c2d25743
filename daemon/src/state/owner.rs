//! Whose state this is: a directory that was copied to another machine must not be taken for that
//! machine's own.

use std::path::Path;

use super::mark::Mark;
use super::properties::{Damage, Properties};

/// The file that names the owner.
pub const FILE: &str = "owner.properties";

/// What a machine without an ID is called. Containers often have none; their directories are then
/// told apart by identity alone.
const NO_MACHINE: &str = "none";

/// The store of directories that do not name one: there was no other when they were made.
const EMBEDDED: &str = "sqlite";

/// The owner of a state directory, and where its ranges come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The machine's ID.
    pub machine: String,
    /// The configured identity; empty when none is.
    pub identity: String,
    /// The database that ranges are leased from: those of another are not this one's.
    pub store: String,
}

impl Owner {
    /// This host: `configured_machine` or else systemd's machine ID, the identity, and the shared
    /// database, if there is one.
    #[must_use]
    pub fn here(
        configured_machine: Option<&str>,
        identity: &str,
        shared_store: Option<&str>,
    ) -> Self {
        let machine = configured_machine.map(str::to_owned).or_else(|| {
            ["/etc/machine-id", "/var/lib/dbus/machine-id"].iter().find_map(|path| {
                let id = std::fs::read_to_string(Path::new(path)).ok()?;
                let id = id.trim();
                (!id.is_empty() && id != "uninitialized").then(|| id.to_owned())
            })
        });
        Self {
            machine: machine.unwrap_or_else(|| NO_MACHINE.to_owned()),
            identity: identity.to_owned(),
            store: shared_store.unwrap_or(EMBEDDED).to_owned(),
        }
    }

    /// Whether this machine has an ID by which a copied directory can be told.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.machine == NO_MACHINE && self.identity.is_empty()
    }

    /// The file's content. `generation` counts the starts; `ends_are_known` says whether the
    /// journal has known the highest end of every tag ever since the directory was new; `mark` is
    /// the directory's.
    #[must_use]
    pub fn write(&self, generation: u64, ends_are_known: bool, mark: Mark) -> String {
        let mut properties = Properties::default();
        properties.set("version", 1);
        properties.set("generation", generation);
        properties.set("endsAreKnown", ends_are_known);
        properties.set("machine", &self.machine);
        properties.set("identity", &self.identity);
        properties.set("store", &self.store);
        properties.set("directory", mark.write());
        properties.write("Whose state this is. Written by leafd; do not copy it to another host.")
    }

    /// Reads the file's content: the owner, and what else [`Self::write`] was given; older files
    /// have no mark.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub fn read(content: &[u8]) -> Result<(Self, u64, bool, Option<Mark>), Damage> {
        let properties = Properties::read(content)?;
        match properties.number("version")? {
            1 => {
                let owner = Self {
                    machine: properties.get("machine")?.to_owned(),
                    identity: properties.get("identity")?.to_owned(),
                    store: properties.get("store").unwrap_or(EMBEDDED).to_owned(),
                };
                let ends_are_known = properties.get("endsAreKnown")? == "true";
                let mark = properties.get("directory").ok().and_then(Mark::read);
                Ok((owner, properties.number("generation")?, ends_are_known, mark))
            }
            other => Err(Damage::Content(format!("version {other} is not known"))),
        }
    }

    /// In what `self`, the owner on disk, leased its ranges elsewhere than this host does; `None`
    /// when it is the same database.
    #[must_use]
    pub fn leased_elsewhere(&self, here: &Self) -> Option<String> {
        (self.store != here.store).then(|| format!("{} (now it is {})", self.store, here.store))
    }

    /// In what `self`, the owner on disk, differs from this host; `None` when it is this host.
    #[must_use]
    pub fn differs_from(&self, here: &Self) -> Option<String> {
        if self.machine != here.machine {
            Some(format!("machine ID {} (this machine has {})", self.machine, here.machine))
        } else if self.identity != here.identity {
            Some(format!("identity {:?} (configured is {:?})", self.identity, here.identity))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_written_and_read_and_told_from_another() {
        let here = Owner { machine: "m1".into(), identity: "a".into(), store: "s".into() };
        let mark = Mark::read("7@8").unwrap();
        let read = Owner::read(here.write(5, false, mark).as_bytes());
        assert_eq!(read, Ok((here.clone(), 5, false, Some(mark))));
        assert_eq!(here.differs_from(&here), None);
        let other = Owner { machine: "m2".into(), ..here.clone() };
        assert!(here.differs_from(&other).unwrap().contains("m2"));
        let other = Owner { store: "t".into(), ..here.clone() };
        assert_eq!(here.differs_from(&other), None);
        assert_eq!(
            (here.leased_elsewhere(&here), here.leased_elsewhere(&other).is_some()),
            (None, true)
        );
        let other = Owner { identity: "b".into(), ..here.clone() };
        assert!(here.differs_from(&other).unwrap().contains("\"b\""));
    }
}
