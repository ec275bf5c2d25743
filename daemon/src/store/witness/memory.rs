//! What a host remembers of the table, on its own disk, so that it notices when the database forgets.

use std::collections::BTreeMap;

use super::table::{FORGET_S, HostName, HostRow, Presence, WitnessTable};
use crate::state::mark::FileMark;
use crate::state::properties::{Damage, FILE_MARK, Properties};

/// What a file says of other hosts is not used if the file is older than this, in seconds. Rows of hosts that
/// have left are deleted after [`FORGET_S`], and a file that still knew them would bring them back.
const STALE_S: u64 = FORGET_S / 2;

/// What is remembered of a host's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownHost {
    pub(crate) shown: String,
    pub(crate) presence: Presence,
    pub(crate) beat: u64,
}

/// What is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    pub(crate) epoch: u64,
    pub(crate) nonce: u64,
    pub(crate) roster: u64,
}

impl Kept {
    /// The roster, if it is one of this epoch.
    pub(crate) const fn roster_of(self, epoch: u64, nonce: u64) -> u64 {
        if self.epoch == epoch && self.nonce == nonce { self.roster } else { 0 }
    }
}

/// What this host knows of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WitnessMemory {
    /// This host.
    pub(crate) me: HostName,
    /// The last epoch that it has seen; 0 for none.
    pub(crate) epoch: u64,
    /// Its nonce.
    pub(crate) nonce: u64,
    /// The roster of [`Self::hosts`].
    pub(crate) roster: u64,
    /// All hosts as they were then, this one among them.
    pub(crate) hosts: BTreeMap<HostName, KnownHost>,
    /// The epoch, its nonce and the roster that are on disk. Not written: a start has what the file says.
    pub(crate) kept: Kept,
    /// The beat of a write of its row whose outcome is unknown; 0 for none. Not written.
    pub(crate) tried: u64,
    /// The value of `joined` for which every host knows this one. Not written.
    pub(crate) known_as: Option<u64>,
}

impl WitnessMemory {
    /// What a host knows that has never seen the table.
    pub(crate) const fn new(me: HostName) -> Self {
        Self {
            me,
            epoch: 0,
            nonce: 0,
            roster: 0,
            hosts: BTreeMap::new(),
            kept: Kept { epoch: 0, nonce: 0, roster: 0 },
            tried: 0,
            known_as: None,
        }
    }

    /// The beat with which this host left its row, or may have; 0 if it never had one.
    pub(crate) fn own_beat(&self) -> u64 {
        self.hosts.get(&self.me).map_or(0, |own| own.beat).max(self.tried)
    }

    /// This host is about to leave.
    pub(crate) fn leave(&mut self) {
        if let Some(own) = self.hosts.get_mut(&self.me) {
            own.presence = Presence::Left;
        }
    }

    /// All of this is on disk now.
    pub(crate) const fn keep(&mut self) {
        self.kept = Kept { epoch: self.epoch, nonce: self.nonce, roster: self.roster };
    }

    /// The roster that is on disk, if it is one of this epoch.
    pub(crate) const fn kept_roster(&self, epoch: u64, nonce: u64) -> u64 {
        self.kept.roster_of(epoch, nonce)
    }

    /// Whether this host was among those that may lease.
    pub(crate) fn was_here(&self) -> bool {
        self.hosts.get(&self.me).is_some_and(|own| own.presence == Presence::Here)
    }

    /// All hosts as this one knows them. Its own last write counts if it may have been committed.
    pub(crate) fn known(&self) -> BTreeMap<HostName, KnownHost> {
        let mut known = self.hosts.clone();
        if self.tried > 0 {
            let shown = String::new();
            let new = KnownHost { shown, presence: Presence::Here, beat: 0 };
            let own = known.entry(self.me).or_insert(new);
            own.beat = own.beat.max(self.tried);
        }
        known
    }

    /// Takes over a table that was committed.
    pub(crate) fn learn(&mut self, table: &WitnessTable) {
        let Some(fleet) = &table.fleet else { return };
        self.epoch = fleet.epoch;
        self.nonce = fleet.nonce;
        self.roster = fleet.roster;
        let known = |(name, row): (&HostName, &HostRow)| {
            // Once more lost, it still does not know who came after it.
            let presence = match row.presence {
                Presence::Lapsed => Presence::Left,
                presence => presence,
            };
            let known = KnownHost { shown: row.shown.clone(), presence, beat: row.beat };
            (*name, known)
        };
        // A row that will soon be deleted must not come back by what this host remembers of it.
        let now_s = table.hosts.values().map(|row| row.seen_s).max().unwrap_or(0);
        let stays = |row: &HostRow| {
            row.presence.is_awaited() || now_s.saturating_sub(row.seen_s) <= STALE_S
        };
        let rows = table.hosts.iter().filter(|(_, row)| stays(row));
        self.hosts = rows.map(known).collect();
        self.tried = 0;
    }

    /// Whether the file would say something else of this.
    pub(crate) fn differs_on_disk(&self, other: &Self) -> bool {
        let essence = |memory: &Self| (memory.me, memory.epoch, memory.nonce, memory.roster);
        essence(self) != essence(other) || self.hosts != other.hosts
    }

    /// The content of `file`, at `now_s` seconds since 1970. `database` tells the database that this is about
    /// from others.
    #[must_use]
    pub(crate) fn write(&self, database: &str, now_s: u64, file: FileMark) -> String {
        let mut properties = Properties::default();
        properties.set("version", 1);
        properties.set(FILE_MARK, file.write());
        properties.set("written", now_s);
        properties.set("database", database);
        properties.set("me", self.me);
        properties.set("epoch", self.epoch);
        properties.set("nonce", self.nonce);
        properties.set("roster", self.roster);
        for (name, known) in &self.hosts {
            let KnownHost { shown, presence, beat } = known;
            let text = format!("{} {beat} {shown}", presence.word());
            properties.set(&format!("host.{name}"), text);
        }
        properties.write("What leafd has seen in the table leafd_witness. Written by leafd.")
    }

    /// Reads a file's content, at `now_s` seconds since 1970, and which database it is about.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub(crate) fn read(content: &[u8], now_s: u64) -> Result<(Self, String), Damage> {
        let properties = Properties::read(content)?;
        match properties.number("version")? {
            1 => {}
            other => return Err(Damage::Content(format!("version {other} is not known"))),
        }
        let wrong = |what: &str| Damage::Content(format!("{what} makes no sense"));
        let me = properties.get("me")?.parse().map_err(|()| wrong("me"))?;
        if me == HostName::FLEET {
            return Err(wrong("me"));
        }
        let mut memory = Self::new(me);
        memory.epoch = properties.number("epoch")?;
        memory.nonce = properties.number("nonce")?;
        memory.roster = properties.number("roster")?;
        memory.keep();
        for (key, value) in properties.with_prefix("host.") {
            let name = key.parse().map_err(|()| wrong(key))?;
            let mut words = value.splitn(3, ' ');
            let presence = words.next().map(Presence::read).ok_or_else(|| wrong(key))?;
            let beat = words.next().and_then(|beat| beat.parse().ok());
            let beat = beat.ok_or_else(|| wrong(key))?;
            let shown = words.next().unwrap_or_default().to_owned();
            memory.hosts.insert(name, KnownHost { shown, presence, beat });
        }
        if now_s.saturating_sub(properties.number("written")?) > STALE_S {
            memory.hosts.retain(|name, _| *name == me);
        }
        Ok((memory, properties.get("database")?.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::FleetRow;
    use super::*;

    #[test]
    fn a_host_that_left_long_ago_is_forgotten_before_its_row_is_deleted() {
        let row = |presence, seen_s| HostRow { presence, beat: 1, seen_s, ..HostRow::new() };
        let now_s = 100 * FORGET_S;
        let [me, recent, old, silent] = [1, 2, 3, 4].map(HostName::of_number);
        let hosts = [
            (me, row(Presence::Here, now_s)),
            (recent, row(Presence::Left, now_s - STALE_S)),
            (old, row(Presence::Left, now_s - STALE_S - 1)),
            (silent, row(Presence::Here, 0)),
        ];
        let fleet = Some(FleetRow::default());
        let mut memory = WitnessMemory::new(me);
        memory.learn(&WitnessTable { fleet, hosts: hosts.into() });
        assert_eq!(memory.hosts.into_keys().collect::<Vec<_>>(), [me, recent, silent]);
    }

    #[test]
    fn what_is_written_is_read_and_old_news_of_others_is_not_used() {
        let (me, other) = (HostName::of_number(7), HostName::of_number(u128::MAX));
        let mut memory = WitnessMemory::new(me);
        (memory.epoch, memory.nonce, memory.roster) = (3, u64::MAX, 9);
        let known =
            |presence, beat, shown: &str| KnownHost { shown: shown.to_owned(), presence, beat };
        memory.hosts.insert(me, known(Presence::Here, 12, "web 1"));
        memory.hosts.insert(other, known(Presence::Left, 5, ""));
        let mark = FileMark::read("7@8").unwrap();
        let text = memory.write("place a", 1000, mark);
        let read = |now_s| WitnessMemory::read(text.as_bytes(), now_s);
        let mut expected = memory.clone();
        expected.keep();
        assert_eq!((expected.kept_roster(3, u64::MAX), expected.kept_roster(3, 1)), (9, 0));
        assert_eq!(read(1000), Ok((expected.clone(), "place a".to_owned())));
        // Others may have left and been forgotten since.
        expected.hosts.remove(&other);
        let late = 1001 + STALE_S;
        assert_eq!(read(late), Ok((expected, "place a".to_owned())));
        let cut = text.len() - 5;
        assert!(WitnessMemory::read(&text.as_bytes()[..cut], 1000).is_err());
    }
}
