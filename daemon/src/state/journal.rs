//! The segment journal: for each tag the highest end seen and the ranges above the durable ceiling.
//! leafd appends lines and syncs them; the last line of a tag counts. When most lines are outdated,
//! leafd rewrites the file. `format.rs` has the lines, `replay.rs` reads them back.

mod format;
mod replay;
mod retired;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use self::format::{push_line, whole_text};
use super::durable;
use crate::ids::{BizTag, RangeQueue};

pub(crate) use format::JournalHeader;
pub use format::TagRecord;
pub(crate) use replay::{JournalReading, read};
pub(crate) use retired::{RetiredDays, RetiredSeries, series_of};

/// The journal's name in the state directory.
pub(crate) const FILE: &str = "segments.journal";

/// The name of a file beside the journal that leafd replaces at every write. It holds only its own mark:
/// the journal stays one file for as long as leafd runs, so a copy written over it would not show.
pub(crate) const MARK_FILE: &str = "segments.mark";

/// leafd rewrites the journal when its outdated lines outnumber the tags by more than this.
const SLACK: usize = 20_000;

/// The journal, open for appending.
#[derive(Debug)]
pub struct SegmentJournal {
    path: PathBuf,
    header: JournalHeader,
    file: File,
    lines: usize,
    tags: HashMap<BizTag, TagRecord>,
    retired: RetiredDays,
    /// A write failed, so the content of the file is unknown: the next write replaces it.
    suspect: bool,
    /// How often the mark was renewed.
    renewed: usize,
}

impl SegmentJournal {
    /// Makes a journal with these tags, and with what is left of others, and replaces one that exists.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn create(
        path: &Path,
        header: JournalHeader,
        tags: HashMap<BizTag, TagRecord>,
        retired: RetiredDays,
    ) -> io::Result<Self> {
        durable::replace_marked(path, |file| whole_text(header, file, &tags, &retired))?;
        let file = OpenOptions::new().append(true).open(path)?;
        let lines = tags.len();
        let path = path.to_owned();
        let (suspect, renewed) = (false, 0);
        let mut this = Self { path, header, file, lines, tags, retired, suspect, renewed };
        this.renew_mark();
        Ok(this)
    }

    /// Without a fresh mark leafd detects fewer copies, which is no reason to refuse IDs.
    fn renew_mark(&mut self) {
        self.renewed = self.renewed.wrapping_add(1);
        let path = self.path.with_file_name(MARK_FILE);
        if let Err(error) = durable::renew_mark(&path, self.renewed) {
            tracing::debug!("{MARK_FILE} cannot be written: {error}");
        }
    }

    pub(crate) const fn tags(&self) -> &HashMap<BizTag, TagRecord> {
        &self.tags
    }

    /// What is left of tags of past days.
    pub(crate) const fn retired(&self) -> &RetiredDays {
        &self.retired
    }

    /// Whether nothing was ever leased, as far as the journal knows.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.tags.is_empty() && self.header.base == 0 && self.retired.is_empty()
    }

    /// Every tag without a line starts at or above this; 0 if nothing was lost.
    pub(crate) const fn base(&self) -> u64 {
        self.header.base
    }

    /// Keeps of this tag of a past day only what uniqueness needs: `left`, or its own mark if that is higher. The
    /// file has the tag until it is written as a whole, and then neither is missing.
    pub(crate) fn retire(&mut self, tag: &BizTag, left: RetiredSeries) {
        let Some((series, _)) = series_of(tag.as_str()) else { return };
        let known = self.tags.remove(tag).map_or(0, |record| record.floor);
        let floor = left.floor.max(known);
        self.retired.add(series, RetiredSeries { floor, ..left });
    }

    /// Writes records and syncs them. After an error the content of the file is unknown, and the next
    /// call replaces it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn append(&mut self, records: Vec<(BizTag, TagRecord)>) -> io::Result<()> {
        let records = self.keeping_marks(records);
        let mut text = String::new();
        for (tag, record) in &records {
            push_line(&mut text, tag, record);
        }
        self.lines += records.len();
        self.tags.extend(records);
        // Somebody removed or replaced the file, so appended lines would be lost.
        let removed = self.file.metadata().map_or(true, |file| file.nlink() == 0);
        if self.suspect || removed || self.lines > 2 * self.tags.len() + SLACK {
            return self.rewrite();
        }
        self.suspect = true;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.suspect = false;
        self.renew_mark();
        Ok(())
    }

    /// Never lowers a high-water mark: the call that made a tag may have recorded a higher one than the
    /// tag's buffer knows.
    fn keeping_marks(&self, mut records: Vec<(BizTag, TagRecord)>) -> Vec<(BizTag, TagRecord)> {
        for (tag, record) in &mut records {
            let known = self.tags.get(tag).map_or(0, |known| known.floor);
            record.floor = record.floor.max(known);
        }
        records
    }

    /// Raises high-water marks and syncs them. The ranges of the tags stay as they are.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(crate) fn raise(&mut self, marks: Vec<(BizTag, u64)>) -> io::Result<()> {
        let records = marks.into_iter().filter_map(|(tag, mark)| {
            let known = self.tags.get(&tag).cloned();
            let unused = || TagRecord { floor: 0, used_s: 0, left: RangeQueue::default() };
            let record = known.unwrap_or_else(unused);
            (record.floor < mark).then_some((tag, TagRecord { floor: mark, ..record }))
        });
        let records: Vec<_> = records.collect();
        if records.is_empty() && !self.suspect {
            return Ok(());
        }
        self.append(records)
    }

    /// Writes the last records before leafd ends, and syncs them, to a new file. An earlier copy of the
    /// journal is then recognised even if it is written over this one.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn finish(&mut self, records: Vec<(BizTag, TagRecord)>) -> io::Result<()> {
        self.tags.extend(self.keeping_marks(records));
        self.rewrite()
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.suspect = true;
        let text = |file| whole_text(self.header, file, &self.tags, &self.retired);
        durable::replace_marked(&self.path, text)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.lines = self.tags.len();
        self.suspect = false;
        self.renew_mark();
        Ok(())
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
