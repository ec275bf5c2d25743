//! What `top` knows and shows, and what keys change. No IO.

use std::sync::PoisonError;

use leaf_client::wire::DaemonStatus;
use leafd::cli::top::{TopArgs, TopSort};
use leafd::duration::rough;

use super::glyphs::ascii;
use super::header::{TotalRates, header, trouble};
use super::keys::{KeyDecoder, Search, TopKey};
use super::known::KnownTags;
use super::reader::{Round, Shown};
use super::rows::tag_lines;
use crate::exit::Failure;
use crate::live::{Contact, KeyEffect, LiveView, Reading, second};
use crate::output::{grouped, harmless};
use crate::screen::{Line, Screen, Tone};
use crate::text::cut;

/// Windows with fewer rows than this have no empty lines.
const ROOMY: usize = 16;

/// The state of `top`.
pub(super) struct TopView {
    args: TopArgs,
    utf8: bool,
    shown: Shown,
    contact: Contact,
    rounds: u64,
    status: Option<DaemonStatus>,
    rates: TotalRates,
    tags: KnownTags,
    /// Why this user may not see the tags.
    forbidden: Option<String>,
    restart: Option<String>,
    sort: TopSort,
    search: Search,
    keys: KeyDecoder,
    /// Tags above the first that is shown.
    above: usize,
    /// Tags that the last frame had room for.
    room: usize,
}

impl TopView {
    /// Nothing yet. `shown` gets the names of the tags on the screen.
    pub(super) fn new(args: &TopArgs, utf8: bool, shown: Shown) -> Self {
        Self {
            args: args.clone(),
            utf8,
            shown,
            contact: Contact::default(),
            rounds: 0,
            status: None,
            rates: TotalRates::default(),
            tags: KnownTags::default(),
            forbidden: None,
            restart: None,
            sort: args.sort,
            search: Search::default(),
            keys: KeyDecoder::default(),
            above: 0,
            room: 1,
        }
    }

    fn note_round(&mut self, at_ms: u64, round: Round) {
        let (pid, before) = (round.status.pid, self.status.as_ref().map(|status| status.pid));
        if let Some(before) = before.filter(|before| *before != pid) {
            self.tags.clear();
            self.rates = TotalRates::default();
            let at = second(at_ms);
            let text =
                format!("leafd has restarted: pid {before} is now {pid}, since {at} or before");
            self.restart = Some(text);
        }
        self.rates.note(round.at, &round.status);
        self.status = Some(round.status);
        match round.pages {
            Ok(pages) => {
                self.forbidden = None;
                pages.into_iter().for_each(|page| self.tags.note(page));
            }
            Err(why) => {
                self.tags.clear();
                self.forbidden = Some(why);
            }
        }
    }

    /// Everything above the tags.
    fn top(&self, screen: Option<&Screen>) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(text) = self.contact.unreachable() {
            lines.extend(trouble(&text, Tone::Failure, screen));
        }
        if let Some(text) = &self.restart {
            lines.extend(trouble(text, Tone::Warning, screen));
        }
        if let Some(status) = &self.status {
            lines.extend(header(status, &self.rates, screen));
        }
        if let Some(why) = &self.forbidden {
            let text = format!("The tags are not shown: {}", harmless(why));
            lines.extend(trouble(&text, Tone::Plain, screen));
        }
        lines
    }

    fn heading(&self) -> Line {
        let moment = self.contact.asked().unwrap_or_else(|| "waiting for leafd".to_owned());
        let interval = u64::try_from(self.args.interval.as_millis()).unwrap_or(u64::MAX);
        let text = format!("{moment}, every {}; q ends", rough(interval));
        Line { text, tone: Tone::Heading }
    }

    /// The last line: which tags are shown, and what keys do.
    fn footer(&self, from: usize, to: usize, of: usize) -> Line {
        let search = harmless(self.search.text());
        if self.search.is_typing {
            return Line { text: format!("search: {search}_"), tone: Tone::Heading };
        }
        let known = self.tags.len();
        let all = self.status.as_ref().map_or(0, |status| status.segments.tags);
        let with = if search.is_empty() { String::new() } else { format!(" with {search:?}") };
        // `top` reads so many tags and no more.
        let cut = match all > known as u64 && known >= crate::status::MOST_READ {
            true => format!(" (of {})", grouped(all)),
            false => String::new(),
        };
        let (of, sort) = (grouped(of as u64), self.sort.name());
        Line::plain(format!(
            "{from}-{to} of {of}{with}{cut} by {sort}; r, u, n sort, / searches, arrows scroll"
        ))
    }

    fn store_error(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.segments.store_error)
    }

    fn finished(&self, mut lines: Vec<Line>, screen: Option<&Screen>) -> Vec<Line> {
        for line in &mut lines {
            if let Some(screen) = screen {
                line.text = cut(&line.text, screen.columns);
            }
            if !self.utf8 && screen.is_some() {
                line.text = ascii(&line.text);
            }
        }
        lines
    }

    fn command(&mut self, key: TopKey) -> KeyEffect {
        let last = usize::MAX;
        match key {
            TopKey::Byte(b'q' | b'Q') => return KeyEffect::End,
            TopKey::Byte(b'/') => {
                self.search.begin();
                self.above = 0;
            }
            TopKey::Byte(b'r') => self.sort_by(TopSort::Rate),
            TopKey::Byte(b'u') => self.sort_by(TopSort::Urgency),
            TopKey::Byte(b'n') => self.sort_by(TopSort::Name),
            TopKey::Up | TopKey::Byte(b'k') => self.above = self.above.saturating_sub(1),
            TopKey::Down | TopKey::Byte(b'j') => self.above = self.above.saturating_add(1),
            TopKey::PageUp => self.above = self.above.saturating_sub(self.room),
            TopKey::PageDown => self.above = self.above.saturating_add(self.room),
            TopKey::Home => self.above = 0,
            TopKey::End => self.above = last,
            TopKey::Byte(_) => return KeyEffect::Nothing,
        }
        KeyEffect::Redraw
    }

    fn sort_by(&mut self, sort: TopSort) {
        self.sort = sort;
        self.above = 0;
    }
}

impl LiveView for TopView {
    type Answer = Round;

    fn note(&mut self, reading: Reading<Round>) -> Result<(), Failure> {
        let at_ms = reading.at_ms;
        self.rounds = self.rounds.saturating_add(1);
        if let Some(round) = self.contact.note(reading)? {
            self.note_round(at_ms, round);
        }
        Ok(())
    }

    fn key(&mut self, byte: u8) -> KeyEffect {
        match self.keys.note(byte) {
            None => KeyEffect::Nothing,
            Some(TopKey::Byte(byte)) if self.search.is_typing => {
                self.search.type_byte(byte);
                self.above = 0;
                KeyEffect::Redraw
            }
            Some(key) => self.command(key),
        }
    }

    fn frame(&mut self, screen: &Screen) -> Vec<Line> {
        let mut lines = vec![self.heading()];
        lines.extend(self.top(Some(screen)));
        // The heading of the table, a tag, and the last line always have room.
        lines.truncate(screen.rows.saturating_sub(3).max(1));
        let has_tags = self.tags.len() > 0;
        if has_tags && screen.rows >= ROOMY && lines.len() + 4 <= screen.rows {
            lines.push(Line::plain(""));
        }
        if has_tags || self.search.is_typing {
            let found = self.tags.sorted(self.sort, self.search.text());
            let room = screen.rows.saturating_sub(lines.len() + 2).max(1);
            let above = self.above.min(found.len().saturating_sub(room));
            let page: Vec<_> = found.iter().copied().skip(above).take(room).collect();
            let names = page.iter().map(|track| track.status.tag.clone()).collect();
            *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = names;
            lines.extend(tag_lines(&page, Some(screen.columns), self.store_error()));
            let (count, from) = (found.len(), (above + 1).min(found.len()));
            lines.push(self.footer(from, above + page.len(), count));
            (self.above, self.room) = (above, room);
        }
        lines.truncate(screen.rows.max(1));
        self.finished(lines, Some(screen))
    }

    fn block(&self, screen: Option<&Screen>) -> Vec<Line> {
        let asked = self.contact.asked().unwrap_or_default();
        let mut lines = vec![Line { text: format!("at {asked}"), tone: Tone::Heading }];
        match self.contact.unreachable() {
            Some(text) => lines.extend(trouble(&text, Tone::Failure, screen)),
            None => {
                lines.extend(self.top(screen));
                let found = self.tags.sorted(self.sort, self.search.text());
                // The heading, an empty line, and the shell's prompt.
                let room = screen.map_or(usize::MAX, |screen| {
                    screen.rows.saturating_sub(lines.len() + 3).max(1)
                });
                let page: Vec<_> = found.into_iter().take(room).collect();
                if !page.is_empty() {
                    let columns = screen.map(|screen| screen.columns);
                    lines.extend(tag_lines(&page, columns, self.store_error()));
                }
            }
        }
        lines.push(Line::plain(""));
        self.finished(lines, screen)
    }

    fn outcome(&self) -> Option<Result<(), Failure>> {
        let is_done = self.args.count.is_some_and(|count| self.rounds >= count);
        let why = self.contact.why_not().map(str::to_owned);
        is_done.then(|| why.map_or(Ok(()), |why| Err(Failure::Unavailable(why))))
    }
}
