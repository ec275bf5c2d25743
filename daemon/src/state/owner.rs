//! Which host a state directory belongs to: a directory that was copied to another machine must not pass
//! for that machine's.

use std::path::Path;

use super::mark::FileMark;
use super::properties::{Damage, FILE_MARK, Properties};

/// The file that names the owner.
pub(crate) const FILE: &str = "owner.properties";

/// Stands for the ID of a machine that has none. Containers often have none; only the identity then
/// tells their directories apart.
const NO_MACHINE: &str = "none";

/// Stands for the embedded store. Directories of early versions name no store, because there was no
/// other.
const EMBEDDED: &str = "sqlite";

/// The owner of a state directory, and where its ranges come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateOwner {
    /// The machine's ID.
    pub(crate) machine: String,
    /// The configured identity; empty if there is none.
    pub(crate) identity: String,
    /// The database that the ranges come from. They mean nothing in another database.
    pub(crate) store: String,
}

/// What the owner file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnerFile {
    /// The host that the directory belongs to.
    pub(crate) owner: StateOwner,
    /// The number of the start that wrote the file.
    pub(crate) generation: u64,
    /// Whether the journal has known the highest end of every tag ever since the directory was new.
    pub(crate) ends_are_known: bool,
    /// Every tag that the journal does not know starts at or above this: IDs below may have been
    /// issued from a state that was lost. 0 if none was lost.
    pub(crate) base: u64,
    /// The directory in which leafd wrote the file; older files do not say.
    pub(crate) directory: Option<FileMark>,
    /// The file itself when leafd wrote it; older files do not say.
    pub(crate) file: Option<FileMark>,
}

impl OwnerFile {
    /// The file's content.
    #[must_use]
    pub(crate) fn write(&self) -> String {
        let mut properties = Properties::default();
        properties.set("version", 1);
        properties.set("generation", self.generation);
        properties.set("endsAreKnown", self.ends_are_known);
        properties.set("base", self.base);
        properties.set("machine", &self.owner.machine);
        properties.set("identity", &self.owner.identity);
        properties.set("store", &self.owner.store);
        for (key, mark) in [("directory", self.directory), (FILE_MARK, self.file)] {
            if let Some(mark) = mark {
                properties.set(key, mark.write());
            }
        }
        properties.write("Whose state this is. Written by leafd; do not copy it to another host.")
    }

    /// Reads the file's content.
    ///
    /// # Errors
    /// When the file is damaged or of another version.
    pub(crate) fn read(content: &[u8]) -> Result<Self, Damage> {
        let properties = Properties::read(content)?;
        match properties.number("version")? {
            1 => {}
            other => return Err(Damage::Content(format!("version {other} is not known"))),
        }
        Ok(Self {
            owner: StateOwner {
                machine: properties.get("machine")?.to_owned(),
                identity: properties.get("identity")?.to_owned(),
                store: properties.get("store").unwrap_or(EMBEDDED).to_owned(),
            },
            generation: properties.number("generation")?,
            ends_are_known: properties.get("endsAreKnown")? == "true",
            base: match properties.get("base") {
                Ok(_) => properties.number("base")?,
                // Older files have no base.
                Err(_) => 0,
            },
            directory: properties.get("directory").ok().and_then(FileMark::read),
            file: properties.file(),
        })
    }
}

impl StateOwner {
    /// This host: `configured_machine` or else systemd's machine ID, the identity, and the shared
    /// database if there is one.
    #[must_use]
    pub(crate) fn here(
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

    /// Whether this host has neither a machine ID nor an identity, so that it cannot recognise a
    /// directory that was copied from another host.
    #[must_use]
    pub(crate) fn is_anonymous(&self) -> bool {
        self.machine == NO_MACHINE && self.identity.is_empty()
    }

    /// Where `self`, the owner on disk, leased its ranges, if that is not this host's database.
    #[must_use]
    pub(crate) fn leased_elsewhere(&self, here: &Self) -> Option<String> {
        (self.store != here.store).then(|| format!("{} (now it is {})", self.store, here.store))
    }

    /// How `self`, the owner on disk, differs from this host; `None` if it is this host.
    #[must_use]
    pub(crate) fn differs_from(&self, here: &Self) -> Option<String> {
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
    fn an_owner_is_written_and_read_and_differs_from_another() {
        let here = StateOwner { machine: "m1".into(), identity: "a".into(), store: "s".into() };
        for (base, directory, file) in
            [(0, None, None), (7, FileMark::read("7@8"), FileMark::read("9"))]
        {
            let owner = here.clone();
            let file =
                OwnerFile { owner, generation: 5, ends_are_known: false, base, directory, file };
            assert_eq!(OwnerFile::read(file.write().as_bytes()), Ok(file));
        }
        assert_eq!(here.differs_from(&here), None);
        let other = StateOwner { machine: "m2".into(), ..here.clone() };
        assert!(here.differs_from(&other).unwrap().contains("m2"));
        let other = StateOwner { store: "t".into(), ..here.clone() };
        assert_eq!(here.differs_from(&other), None);
        assert_eq!(
            (here.leased_elsewhere(&here), here.leased_elsewhere(&other).is_some()),
            (None, true)
        );
        let other = StateOwner { identity: "b".into(), ..here.clone() };
        assert!(here.differs_from(&other).unwrap().contains("\"b\""));
    }
}
