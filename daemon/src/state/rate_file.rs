//! The rate history's file: how far tags had got at a few moments of the last week. Forecasts lose what
//! they know without it, and nothing else does, so leafd believes it or drops it, and never syncs it: a
//! sync would hold up those of the journal.
//!
//! Lines are `CHECKSUM KIND …`, with odd bytes percent-encoded:
//!
//! | kind | what follows |
//! |---|---|
//! | `rates` | the version, 1, then machine ID, identity, and where the database is |
//! | `tag` | the tag, then `SECONDS:MARK` for each reading, oldest first |
//! | `end` | the number of tags |

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use super::dir::StatePlace;
use super::line::{checked, decode, encode, push_checked};
use super::owner::StateOwner;
use crate::ids::BizTag;

/// The file's name in the state directory.
pub(crate) const FILE: &str = "rates.history";

/// The largest file, in bytes.
const MOST_BYTES: usize = 2 << 20;

/// Readings of one tag: seconds since 1970, and the high-water mark.
pub(crate) type MarksOfTag = (BizTag, Vec<(u64, u64)>);

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RateFileError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is damaged")]
    Damaged,
    #[error("it is larger than {MOST_BYTES} bytes")]
    TooLarge,
    #[error("it is of another version")]
    Version,
    #[error("it belongs to another host or another database")]
    Foreign,
}

/// The file in one state directory.
#[derive(Debug)]
pub(crate) struct RateFile {
    place: StatePlace,
    owner: String,
}

impl RateFile {
    /// The file at `place`, for the owner of the directory.
    pub(crate) fn new(place: StatePlace, owner: &StateOwner) -> Self {
        let mut text = String::new();
        for part in [&owner.machine, &owner.identity, &owner.store] {
            text.push(' ');
            encode(part, &mut text);
        }
        Self { place, owner: text }
    }

    /// What the file says; nothing if there is none.
    ///
    /// # Errors
    /// When it is damaged, foreign, or cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<MarksOfTag>, RateFileError> {
        let path = self.place.file(FILE);
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(RateFileError::Damaged),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let mut content = Vec::new();
        let most = MOST_BYTES as u64 + 1;
        std::fs::File::open(path)?.take(most).read_to_end(&mut content)?;
        if content.len() > MOST_BYTES {
            return Err(RateFileError::TooLarge);
        }
        self.parse(&content)
    }

    fn parse(&self, content: &[u8]) -> Result<Vec<MarksOfTag>, RateFileError> {
        let text = std::str::from_utf8(content).map_err(|_| RateFileError::Damaged)?;
        let mut lines = text.lines();
        let mut next = || lines.next().and_then(checked).ok_or(RateFileError::Damaged);
        let head = next()?.strip_prefix("rates ").ok_or(RateFileError::Damaged)?;
        let owner = head.strip_prefix('1').filter(|owner| owner.starts_with(' '));
        if owner.ok_or(RateFileError::Version)? != self.owner {
            return Err(RateFileError::Foreign);
        }
        let mut tags = Vec::new();
        loop {
            let line = next()?;
            if let Some(count) = line.strip_prefix("end ") {
                let is_whole = count.parse() == Ok(tags.len());
                return is_whole.then_some(tags).ok_or(RateFileError::Damaged);
            }
            tags.push(tag(line).ok_or(RateFileError::Damaged)?);
        }
    }

    /// Replaces the file. Tags that do not fit are left out, the last ones first. A power cut may leave
    /// the old file, the new one, or a damaged one.
    ///
    /// # Errors
    /// When the disk refuses, or the directory is no longer leafd's. The old file is then still there.
    pub(crate) fn write<'a>(
        &self,
        tags: impl IntoIterator<Item = (&'a BizTag, Vec<(u64, u64)>)>,
    ) -> io::Result<()> {
        self.place.check()?;
        let path = self.place.file(FILE);
        let new = path.with_extension("history.new");
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(self.content(tags).as_bytes())?;
        std::fs::rename(new, path)
    }

    fn content<'a>(&self, tags: impl IntoIterator<Item = (&'a BizTag, Vec<(u64, u64)>)>) -> String {
        // Room for the last line.
        const REST: usize = 64;
        let mut out = String::new();
        push_checked(&mut out, &format!("rates 1{}", self.owner));
        let (mut count, mut line) = (0_usize, String::new());
        for (name, readings) in tags {
            line.clear();
            line.push_str("tag ");
            encode(name.as_str(), &mut line);
            for (at_s, mark) in readings {
                // Writing to a String cannot fail.
                let _ = write!(line, " {at_s}:{mark}");
            }
            if out.len() + line.len() + REST > MOST_BYTES {
                break;
            }
            push_checked(&mut out, &line);
            count += 1;
        }
        push_checked(&mut out, &format!("end {count}"));
        out
    }
}

fn tag(line: &str) -> Option<MarksOfTag> {
    let mut words = line.strip_prefix("tag ")?.split(' ');
    let name = BizTag::new(&decode(words.next()?)?).ok()?;
    let reading = |word: &str| {
        let (at_s, mark) = word.split_once(':')?;
        Some((at_s.parse().ok()?, mark.parse().ok()?))
    };
    let readings: Vec<_> = words.map(reading).collect::<Option<_>>()?;
    readings.is_sorted().then_some((name, readings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::state::dir::StateDir;

    const OWNER: fn() -> StateOwner = || StateOwner {
        machine: "m".into(),
        identity: String::new(),
        store: "mysql db:3306/leaf".into(),
    };

    fn file(folder: &tempfile::TempDir, owner: &StateOwner) -> RateFile {
        let place = StateDir::lock(folder.path(), &Environment::system()).unwrap().place();
        RateFile::new(place, owner)
    }

    fn tags(names: &[&str]) -> Vec<MarksOfTag> {
        let readings = vec![(1_800_000_000, 5), (1_800_090_000, u64::MAX)];
        names.iter().map(|name| (BizTag::new(name).unwrap(), readings.clone())).collect()
    }

    fn write(file: &RateFile, tags: &[MarksOfTag]) {
        file.write(tags.iter().map(|(name, readings)| (name, readings.clone()))).unwrap();
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder, &OWNER());
        assert_eq!(file.read().unwrap(), []);
        let tags = tags(&["orders", "a b%", "订单"]);
        for _ in 0..2 {
            write(&file, &tags);
            assert_eq!(file.read().unwrap(), tags);
        }
        assert!(!folder.path().join("rates.history.new").exists());
    }

    #[test]
    fn every_damage_is_noticed_and_no_bytes_panic() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder, &OWNER());
        write(&file, &tags(&["orders", "users"]));
        let whole = std::fs::read(folder.path().join(FILE)).unwrap();
        for end in 0..whole.len() - 1 {
            assert!(file.parse(&whole[..end]).is_err(), "cut off at {end}");
        }
        for index in 0..whole.len() - 1 {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            let read = file.parse(&bytes);
            // Lines may be separated by more than one kind of byte; no value may change.
            assert!(read.is_err() || read.unwrap() == tags(&["orders", "users"]), "{index}");
        }
        for content in [&b""[..], b"\xff\xfe", b"00000000 rates 1"] {
            assert!(file.parse(content).is_err());
        }
    }

    #[test]
    fn the_file_of_another_host_database_or_version_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        write(&file(&folder, &OWNER()), &tags(&["orders"]));
        for other in [
            StateOwner { machine: "n".into(), ..OWNER() },
            StateOwner { identity: "x".into(), ..OWNER() },
            StateOwner { store: "sqlite".into(), ..OWNER() },
        ] {
            assert!(matches!(file(&folder, &other).read(), Err(RateFileError::Foreign)));
        }
        let mut later = String::new();
        push_checked(&mut later, "rates 12 m  mysql");
        let read = file(&folder, &OWNER()).parse(later.as_bytes());
        assert!(matches!(read, Err(RateFileError::Version)));
    }

    #[test]
    fn five_thousand_tags_with_full_readings_fit_and_the_longest_names_are_cut_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder, &OWNER());
        let readings = vec![(1_800_000_000, u64::MAX); 8];
        for (name, most) in [("customers/orders.", 5000), (&*"订".repeat(120), 0)] {
            let name = |number: usize| BizTag::new(&format!("{name}{number}")).unwrap();
            let tags: Vec<_> = (0..5000).map(|number| (name(number), readings.clone())).collect();
            write(&file, &tags);
            let read = file.read().unwrap();
            assert!(read.len() >= most.max(1000) && tags.starts_with(&read), "{}", read.len());
            let size = std::fs::metadata(folder.path().join(FILE)).unwrap().len();
            assert!(size <= MOST_BYTES as u64, "{size}");
        }
    }

    #[test]
    fn a_folder_or_a_huge_file_in_its_place_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder, &OWNER());
        std::fs::write(folder.path().join(FILE), vec![b'x'; MOST_BYTES + 1]).unwrap();
        assert!(matches!(file.read(), Err(RateFileError::TooLarge)));
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        std::fs::create_dir(folder.path().join(FILE)).unwrap();
        assert!(matches!(file.read(), Err(RateFileError::Damaged)));
    }
}
