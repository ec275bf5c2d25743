//! The worker file: the worker ID as Leaf writes it, and what leafd adds so that no ID comes twice when
//! it knows nothing else: the ceiling of its time, and the layout and identity that IDs were issued with.

use super::mark::FileMark;
use super::properties::{Damage, FILE_MARK, Properties};

/// The file's name in the state directory.
pub(crate) const FILE: &str = "worker.properties";

/// What the worker file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRecord {
    /// `None` before the first claim.
    pub(crate) worker: Option<u64>,
    /// The identity that claimed the worker ID; empty if none is configured.
    pub(crate) identity: String,
    /// The layout of the ceiling, as in the configuration; empty before the first claim.
    pub(crate) layout: String,
    /// leafd has issued no ID with a time at or past this (ms since 1970).
    pub(crate) ceiling_ms: u64,
    /// What a shared registry knows of the claim; `None` with a fixed worker ID.
    pub(crate) shared: Option<SharedClaim>,
}

/// A claim in a registry that hosts share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedClaim {
    /// The registry, for example `zookeeper /snowflake/leaf`. The claim counts only there.
    pub(crate) registry: String,
    /// The names under which this directory's starts have registered, or may have; the newest first.
    /// leafd recognises a claim in the registry as its own by these.
    pub(crate) nonces: Vec<String>,
    /// Without a further report, leafd issues nothing at or past this (ms since 1970): the worker ID
    /// may then belong to another host.
    pub(crate) limit_ms: u64,
    /// The last report: the ID of its boot, and the milliseconds since that boot.
    pub(crate) reported: Option<(String, u64)>,
    /// Whether anything but leafd may use the worker ID too.
    pub(crate) standing: Standing,
}

/// Whether a worker ID belongs to this directory alone, as far as leafd knows. While it does not, the
/// limit is 0 too, so that version 0.1.0 also issues nothing from this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// Yes.
    #[default]
    Own,
    /// No: something that is not leafd writes its node. leafd may claim it again after it has seen the
    /// node quiet.
    Contested,
    /// An operator handed the node back to Java Leaf.
    HandedBack,
}

impl Standing {
    /// The word in the file; files of version 0.1.0 have none.
    const fn word(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Contested => Some("contested"),
            Self::HandedBack => Some("handed-back"),
        }
    }

    fn read(word: Option<&str>) -> Self {
        match word {
            None => Self::Own,
            Some("handed-back") => Self::HandedBack,
            // A later version may have other words; each says that something may use the ID too.
            Some(_) => Self::Contested,
        }
    }
}

impl WorkerRecord {
    /// The record of a new directory: nothing was ever issued.
    #[must_use]
    pub(crate) const fn fresh() -> Self {
        Self {
            worker: None,
            identity: String::new(),
            layout: String::new(),
            ceiling_ms: 0,
            shared: None,
        }
    }

    /// The content of `file`, in the start with the number `generation`.
    #[must_use]
    pub(crate) fn write(&self, generation: u64, file: FileMark) -> String {
        let mut properties = Properties::default();
        properties.set("version", 1);
        properties.set("generation", generation);
        properties.set("workerID", self.worker.map_or(String::new(), |id| id.to_string()));
        properties.set("identity", &self.identity);
        properties.set("layout", &self.layout);
        properties.set("ceilingMs", self.ceiling_ms);
        properties.set(FILE_MARK, file.write());
        if let Some(shared) = &self.shared {
            properties.set("registry", &shared.registry);
            properties.set("nonces", shared.nonces.join(","));
            properties.set("limitMs", shared.limit_ms);
            if let Some((boot, ms)) = &shared.reported {
                properties.set("reportedBoot", boot);
                properties.set("reportedBootMs", ms);
            }
            if let Some(word) = shared.standing.word() {
                properties.set("standing", word);
            }
        }
        properties.write("Written by leafd; no ID at or past ceilingMs has been issued.")
    }

    /// Reads the file's content: the record, and the number of the start that wrote it.
    ///
    /// # Errors
    /// When the file is damaged or of another version.
    pub(crate) fn read(content: &[u8]) -> Result<(Self, u64), Damage> {
        let properties = Properties::read(content)?;
        match properties.number("version")? {
            1 => {}
            other => return Err(Damage::Content(format!("version {other} is not known"))),
        }
        let worker = match properties.get("workerID")? {
            "" => None,
            _ => Some(properties.number("workerID")?),
        };
        let shared = match properties.get("registry") {
            Err(_) => None,
            Ok(registry) => Some(SharedClaim {
                registry: registry.to_owned(),
                nonces: properties
                    .get("nonces")?
                    .split(',')
                    .filter(|nonce| !nonce.is_empty())
                    .map(str::to_owned)
                    .collect(),
                limit_ms: properties.number("limitMs")?,
                reported: match properties.get("reportedBoot") {
                    Err(_) => None,
                    Ok(boot) => Some((boot.to_owned(), properties.number("reportedBootMs")?)),
                },
                standing: Standing::read(properties.get("standing").ok()),
            }),
        };
        let record = Self {
            worker,
            identity: properties.get("identity")?.to_owned(),
            layout: properties.get("layout")?.to_owned(),
            ceiling_ms: properties.number("ceilingMs")?,
            shared,
        };
        Ok((record, properties.number("generation")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_and_read() {
        let records = [
            WorkerRecord::fresh(),
            WorkerRecord {
                worker: Some(1023),
                identity: "a:1".into(),
                layout: "41/10/12@0/1ms".into(),
                ceiling_ms: 5,
                shared: None,
            },
            WorkerRecord {
                shared: Some(SharedClaim {
                    registry: "zookeeper /a/snowflake/leaf".into(),
                    nonces: vec!["b".into(), "a".into()],
                    limit_ms: 7,
                    reported: Some(("boot".into(), 9)),
                    standing: Standing::Own,
                }),
                ..WorkerRecord::fresh()
            },
            contested(Standing::Contested),
            contested(Standing::HandedBack),
            WorkerRecord { shared: Some(SharedClaim::default()), ..WorkerRecord::fresh() },
        ];
        let mark = FileMark::read("7@8").unwrap();
        for record in records {
            assert_eq!(WorkerRecord::read(record.write(5, mark).as_bytes()), Ok((record, 5)));
        }
    }

    fn contested(standing: Standing) -> WorkerRecord {
        let shared = SharedClaim { standing, ..SharedClaim::default() };
        WorkerRecord { shared: Some(shared), ..WorkerRecord::fresh() }
    }

    #[test]
    fn a_file_of_version_0_1_0_has_a_worker_id_that_nobody_else_uses() {
        let text = contested(Standing::Own).write(1, FileMark::read("7@8").unwrap());
        assert!(!text.contains("standing"), "{text}");
        let (record, _) = WorkerRecord::read(text.as_bytes()).unwrap();
        assert_eq!(record.shared.unwrap().standing, Standing::Own);
    }

    #[test]
    fn a_standing_of_a_later_version_counts_as_contested() {
        assert_eq!(Standing::read(Some("lent")), Standing::Contested);
    }

    #[test]
    fn java_leafs_file_is_not_accepted_as_leafds() {
        assert!(WorkerRecord::read(b"#Thu Jan 01 00:00:00 UTC 2026\nworkerID=3\n").is_err());
    }
}
