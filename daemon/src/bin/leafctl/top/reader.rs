//! Reads the state of leafd for `top`. At first it reads all tags; of many, later rounds read a part
//! and those on the screen, so that watching a fleet's worth of tags is no load.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{DaemonStatus, MAX_TAGS_PER_PAGE, TagStatus};

use crate::exit::Failure;
use crate::status::MOST_READ;
use crate::status::gather::UsedTags;

/// Pages of tags that a later round reads.
const PAGES: usize = 10;

/// The names of the tags on the screen.
pub(super) type Shown = Arc<Mutex<Vec<String>>>;

/// What leafd said in one round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) status: DaemonStatus,
    /// When it answered, from the start of this process on.
    pub(super) at: Duration,
    /// An error says why this user may not see the tags.
    pub(super) pages: Result<Vec<TagPage>, String>,
}

/// All tags of leafd after the name `after` up to the last of these; without any, up to the end.
#[derive(Debug)]
pub(super) struct TagPage {
    pub(super) after: String,
    pub(super) at: Duration,
    pub(super) tags: Vec<TagStatus>,
}

impl TagPage {
    /// Which names it tells everything about.
    pub(super) fn names(&self) -> (Bound<&str>, Bound<&str>) {
        let end = self.tags.last().map_or(Bound::Unbounded, |tag| Bound::Included(&*tag.tag));
        (Bound::Excluded(&self.after), end)
    }
}

/// Which tags there are, and where the next round goes on.
pub(super) struct TagReader {
    began: Instant,
    shown: Shown,
    pid: Option<u32>,
    names: BTreeSet<String>,
    /// The last tag that was read; empty at the beginning of the list.
    cursor: String,
    /// Tags up to the cursor.
    passed: usize,
    /// Pages to read in this round.
    pages: usize,
    /// Pages to read in each later one.
    later: usize,
}

impl TagReader {
    /// Reads a part of the tags in each later round, or `all`.
    pub(super) fn new(shown: Shown, all: bool) -> Self {
        Self {
            began: Instant::now(),
            shown,
            pid: None,
            names: BTreeSet::new(),
            cursor: String::new(),
            passed: 0,
            pages: usize::MAX,
            later: if all { usize::MAX } else { PAGES },
        }
    }

    /// One round.
    ///
    /// # Errors
    /// The daemon's refusals.
    pub(super) fn read(&mut self, client: &mut Client) -> Result<Round, Failure> {
        let status = client.status()?;
        let at = self.began.elapsed();
        // A new leafd has used other tags.
        if self.pid.replace(status.pid) != Some(status.pid) {
            self.names.clear();
            self.rewind();
            self.pages = usize::MAX;
        }
        let mut used = UsedTags::default();
        let pages = self.pages(|after, limit| used.read(client, after, limit))?;
        self.pages = self.later;
        Ok(Round { status, at, pages: used.forbidden.map_or(Ok(pages), Err) })
    }

    fn rewind(&mut self) {
        self.cursor.clear();
        self.passed = 0;
    }

    fn pages(
        &mut self,
        mut read: impl FnMut(&str, u32) -> Result<Vec<TagStatus>, Error>,
    ) -> Result<Vec<TagPage>, Error> {
        let mut pages = Vec::new();
        for _ in 0..self.pages {
            let after = self.cursor.clone();
            let tags = read(&after, MAX_TAGS_PER_PAGE)?;
            self.passed += tags.len();
            let last = tags.last().map(|tag| tag.tag.clone());
            self.keep(after, tags, &mut pages);
            match last {
                Some(last) if last > self.cursor && self.passed < MOST_READ => self.cursor = last,
                _ => {
                    self.rewind();
                    break;
                }
            }
        }
        let read_already: HashSet<String> =
            pages.iter().flat_map(|page| &page.tags).map(|tag| tag.tag.clone()).collect();
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for name in shown.iter().filter(|name| !read_already.contains(*name)) {
            let before = (Bound::Unbounded, Bound::Excluded(name.as_str()));
            let after = self.names.range::<str, _>(before).next_back().cloned().unwrap_or_default();
            let tags = read(&after, 1)?;
            self.keep(after, tags, &mut pages);
        }
        Ok(pages)
    }

    fn keep(&mut self, after: String, tags: Vec<TagStatus>, pages: &mut Vec<TagPage>) {
        let page = TagPage { after, at: self.began.elapsed(), tags };
        let gone: Vec<String> = self.names.range::<str, _>(page.names()).cloned().collect();
        gone.iter().for_each(|name| _ = self.names.remove(name));
        self.names.extend(page.tags.iter().map(|tag| tag.tag.clone()));
        pages.push(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::tests::tag;

    /// The names that one round reads of a leafd with these tags.
    fn round(reader: &mut TagReader, names: &[String]) -> (usize, Vec<String>) {
        let mut requests = 0;
        let pages = reader.pages(|after, limit| {
            requests += 1;
            let page = names.iter().filter(|name| name.as_str() > after);
            Ok(page.take(limit as usize).map(|name| tag(name)).collect())
        });
        reader.pages = reader.later;
        let read = pages.unwrap().into_iter().flat_map(|page| page.tags);
        (requests, read.map(|tag| tag.tag).collect())
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("tag-{number:06}")).collect()
    }

    #[test]
    fn of_many_tags_a_round_reads_a_part_and_those_on_the_screen_until_it_has_read_all() {
        let names = names(3500);
        let shown = Shown::default();
        let mut reader = TagReader::new(Arc::clone(&shown), false);
        assert_eq!(round(&mut reader, &names), (36, names.clone()));
        *shown.lock().unwrap() = vec!["tag-003333".to_owned(), "tag-000007".to_owned()];
        let (requests, read) = round(&mut reader, &names);
        assert_eq!((requests, read.len()), (11, 1001));
        assert!(read.contains(&"tag-003333".to_owned()));
        let mut all: BTreeSet<String> = read.into_iter().collect();
        for _ in 0..3 {
            all.extend(round(&mut reader, &names).1);
        }
        assert_eq!(all.len(), 3500);
    }

    #[test]
    fn a_tag_that_has_gone_from_the_screen_is_no_longer_asked_for_once_its_neighbours_were_read() {
        let shown: Shown = Arc::new(Mutex::new(vec!["tag-000001".to_owned()]));
        let mut reader = TagReader::new(shown, false);
        round(&mut reader, &names(3));
        assert_eq!(reader.names.len(), 3);
        let mut left = names(3);
        left.remove(1);
        round(&mut reader, &left);
        assert_eq!(reader.names.iter().cloned().collect::<Vec<_>>(), left);
        round(&mut reader, &[]);
        assert!(reader.names.is_empty());
    }

    #[test]
    fn of_a_million_tags_the_first_ten_thousand_are_read() {
        let many: Vec<String> = names(MOST_READ + 500);
        let mut reader = TagReader::new(Shown::default(), true);
        for _ in 0..2 {
            assert_eq!(round(&mut reader, &many).1.len(), MOST_READ);
        }
        assert_eq!(reader.names.len(), MOST_READ);
    }
}
