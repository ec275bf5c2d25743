//! The lease log: every range that this host has leased, for `leafd audit`. The daemon never reads it,
//! and nothing waits for it: if a line cannot be written, the next one reports a gap. Full files are
//! rotated, and the oldest is deleted.
//!
//! Lines are `CHECKSUM KIND TIME …`, with the time in ms since 1970 and odd bytes percent-encoded:
//!
//! | kind | what follows |
//! |---|---|
//! | `start` | machine ID, identity, and where the database is: a leafd or a new file begins |
//! | `lease` | the database's identity or `-`, the tag, the first ID, the end behind the last |
//! | `gap` | nothing: leases are missing before this line |

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::database::DatabaseIdentity;
use super::line::{checked, decode, encode, push_checked};
use crate::ids::Range;

/// The log's name in the state directory; older files have `.1`, `.2`, … appended.
pub const FILE: &str = "leases.log";

/// leafd rotates a larger file. In bytes; some 80,000 leases.
const FULL: u64 = 8 << 20;

/// The number of older files that leafd keeps.
pub const OLDER: usize = 3;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseLogEntry {
    /// A leafd started, or a new file begins.
    Start {
        /// ms since 1970.
        time_ms: u64,
        /// The machine's ID.
        machine: String,
        /// The configured identity; may be empty.
        identity: String,
        /// Where the database is, as in the owner file.
        place: String,
    },
    /// A range was leased.
    Lease {
        /// ms since 1970.
        time_ms: u64,
        /// `None` if the database has no identity.
        database: Option<DatabaseIdentity>,
        /// The tag.
        tag: String,
        /// The range.
        range: Range,
    },
    /// Leases are missing before this line.
    Gap {
        /// ms since 1970.
        time_ms: u64,
    },
}

impl LeaseLogEntry {
    fn push(&self, out: &mut String) {
        let encoded = |text: &str| {
            let mut out = String::new();
            encode(text, &mut out);
            out
        };
        let line = match self {
            Self::Start { time_ms, machine, identity, place } => {
                let [machine, identity, place] = [machine, identity, place].map(|t| encoded(t));
                format!("start {time_ms} {machine} {identity} {place}")
            }
            Self::Lease { time_ms, database, tag, range } => {
                let database = database.map_or_else(|| "-".to_owned(), |id| id.to_string());
                let (tag, start, end) = (encoded(tag), range.start(), range.end());
                format!("lease {time_ms} {database} {tag} {start} {end}")
            }
            Self::Gap { time_ms } => format!("gap {time_ms}"),
        };
        push_checked(out, &line);
    }

    /// Reads a line without its line break; `None` if it is damaged.
    #[must_use]
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut fields = checked(line)?.split(' ');
        let kind = fields.next()?;
        let time_ms = fields.next()?.parse().ok()?;
        let rest: Vec<&str> = fields.collect();
        match (kind, rest.as_slice()) {
            ("start", [machine, identity, place]) => Some(Self::Start {
                time_ms,
                machine: decode(machine)?,
                identity: decode(identity)?,
                place: decode(place)?,
            }),
            ("lease", [database, tag, start, end]) => Some(Self::Lease {
                time_ms,
                database: match *database {
                    "-" => None,
                    identity => Some(identity.parse().ok()?),
                },
                tag: decode(tag)?,
                range: Range::new(start.parse().ok()?, end.parse().ok()?)?,
            }),
            ("gap", []) => Some(Self::Gap { time_ms }),
            _ => None,
        }
    }
}

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct LeaseLog {
    path: PathBuf,
    machine: String,
    identity: String,
    place: String,
    /// `None`: the next line opens it.
    file: Option<File>,
    size: u64,
    full: u64,
    has_gap: bool,
}

impl LeaseLog {
    /// The log in a state directory, for this owner and the database at `place`. The first line opens
    /// the file.
    #[must_use]
    pub(crate) fn new(directory: &Path, machine: &str, identity: &str, place: &str) -> Self {
        Self {
            path: directory.join(FILE),
            machine: machine.to_owned(),
            identity: identity.to_owned(),
            place: place.to_owned(),
            file: None,
            size: 0,
            full: FULL,
            has_gap: false,
        }
    }

    /// Records that leases were not written.
    pub(super) const fn lost(&mut self) {
        self.has_gap = true;
    }

    /// Adds a lease, or begins a gap.
    ///
    /// # Errors
    /// When the disk refuses for the first time in a row. Later failures return `Ok`, so that one gap is
    /// reported once.
    pub(super) fn add(&mut self, lease: &LeaseLogEntry) -> io::Result<()> {
        let Err(error) = self.write(lease) else { return Ok(()) };
        self.file = None;
        let is_news = !std::mem::replace(&mut self.has_gap, true);
        if is_news { Err(error) } else { Ok(()) }
    }

    fn write(&mut self, lease: &LeaseLogEntry) -> io::Result<()> {
        let (LeaseLogEntry::Start { time_ms, .. }
        | LeaseLogEntry::Lease { time_ms, .. }
        | LeaseLogEntry::Gap { time_ms }) = *lease;
        let mut text = String::new();
        if self.size > self.full {
            self.rotate()?;
        }
        if self.file.is_none() {
            let (file, size, is_cut) = open(&self.path)?;
            (self.file, self.size) = (Some(file), size);
            if is_cut {
                text.push('\n');
            }
            let [machine, identity, place] =
                [&self.machine, &self.identity, &self.place].map(Clone::clone);
            LeaseLogEntry::Start { time_ms, machine, identity, place }.push(&mut text);
        }
        if self.has_gap {
            LeaseLogEntry::Gap { time_ms }.push(&mut text);
        }
        lease.push(&mut text);
        if let Some(file) = &mut self.file {
            file.write_all(text.as_bytes())?;
        }
        self.size += text.len() as u64;
        self.has_gap = false;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_data()?;
        }
        for number in (1..=OLDER).rev() {
            let newer = if number == 1 { self.path.clone() } else { older(&self.path, number - 1) };
            if newer.try_exists()? {
                std::fs::rename(newer, older(&self.path, number))?;
            }
        }
        self.size = 0;
        Ok(())
    }
}

/// The name of an older file of the log.
#[must_use]
pub fn older(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The file, its size, and whether its last line was cut off.
fn open(path: &Path) -> io::Result<(File, u64, bool)> {
    let mut file =
        OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    let mut last = [b'\n'];
    if size > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, size, last != [b'\n']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lease(start: u64) -> LeaseLogEntry {
        let range = Range::new(start, start + 10).unwrap();
        LeaseLogEntry::Lease { time_ms: 7, database: None, tag: "a b".into(), range }
    }

    fn log(dir: &tempfile::TempDir) -> LeaseLog {
        LeaseLog::new(dir.path(), "m", "", "mysql db:3306/leaf")
    }

    fn entries(path: &Path) -> Vec<Option<LeaseLogEntry>> {
        std::fs::read_to_string(path).unwrap().lines().map(LeaseLogEntry::read).collect()
    }

    #[test]
    fn restarts_append_to_the_log_and_a_cut_off_line_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let start = LeaseLogEntry::Start {
            time_ms: 7,
            machine: "m".into(),
            identity: String::new(),
            place: "mysql db:3306/leaf".into(),
        };
        log(&dir).add(&lease(1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        log(&dir).add(&lease(11)).unwrap();
        let start = Some(start);
        assert_eq!(entries(&path), [start.clone(), None, start, Some(lease(11))]);
    }

    #[test]
    fn the_log_is_bounded_and_drops_its_oldest_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LeaseLog { full: 300, ..log(&dir) };
        for nth in 0..100 {
            log.add(&lease(1 + nth * 10)).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1 + OLDER);
        let path = dir.path().join(FILE);
        assert_eq!(entries(&path).last().unwrap(), &Some(lease(991)));
        for file in [older(&path, 1), older(&path, OLDER)] {
            assert!(
                matches!(entries(&file)[0], Some(LeaseLogEntry::Start { .. })),
                "each file begins with a start"
            );
        }
    }

    #[test]
    fn a_failed_write_leaves_a_gap_that_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::create_dir(&path).unwrap();
        let mut log = log(&dir);
        assert!(log.add(&lease(1)).is_err());
        assert!(log.add(&lease(11)).is_ok(), "told already");
        std::fs::remove_dir(&path).unwrap();
        log.add(&lease(21)).unwrap();
        let entries = entries(&path);
        assert_eq!(entries[1..], [Some(LeaseLogEntry::Gap { time_ms: 7 }), Some(lease(21))]);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused_and_what_is_written_is_read(
            line in "\\PC{0,60}", tag in "\\PC{1,20}", start in 1..1_u64 << 62,
        ) {
            prop_assert_eq!(LeaseLogEntry::read(&line), None);
            let range = Range::new(start, start + 1).unwrap();
            let database = "000102030405060708090a0b0c0d0e0f".parse().ok();
            let lease = LeaseLogEntry::Lease { time_ms: 1, database, tag, range };
            let mut text = String::new();
            lease.push(&mut text);
            prop_assert_eq!(LeaseLogEntry::read(text.trim_end()), Some(lease));
        }
    }
}
