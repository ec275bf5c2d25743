//! A fleet in memory: hosts that lease, raise, visit, stop, crash and are cut off, on a database that loses
//! what it has confirmed. It executes what `rules` decides, one transaction at a time, in any order.

use std::collections::BTreeMap;
use std::time::Duration;

use super::memory::WitnessMemory;
use super::mutated;
use super::rules::{
    LeaseBasis, MissingHosts, Raised, Seen, Visit, all_know, go_on_without_missing, may_lease,
    visit,
};
use super::silence::SilenceWatch;
use super::table::{HostName, Presence, WitnessTable};

/// IDs of a lease.
const STEP: u64 = 10;

type Tag = u8;

/// How many tags there are.
const TAGS: Tag = 3;

/// What a database has committed.
#[derive(Debug, Clone, Default)]
struct Data {
    witness: WitnessTable,
    rows: BTreeMap<Tag, u64>,
    tombstones: BTreeMap<Tag, u64>,
}

/// What a host has on disk.
#[derive(Debug, Clone)]
struct Disk {
    memory: WitnessMemory,
    marks: BTreeMap<Tag, u64>,
}

/// A host that moves its tags' rows.
#[derive(Debug, Clone)]
struct Raising {
    target: Raised,
    todo: Vec<(Tag, u64)>,
}

#[derive(Debug, Clone)]
struct Life {
    memory: WitnessMemory,
    /// A lease that is committed, and whose answer is on its way.
    in_flight: Option<(Tag, u64, u64)>,
    raising: Option<Raising>,
    raised: Option<Raised>,
    silence: SilenceWatch,
    visited_s: Option<u64>,
    /// Since when it has seen the nonce's epoch open.
    open_since: Option<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct SimulatedHost {
    disk: Disk,
    /// An older copy of the disk.
    backup: Disk,
    life: Option<Life>,
    is_cut_off: bool,
    /// Whether its last visit that was committed made it one of those that may lease, or left it one.
    is_member: bool,
}

/// The fleet and its database.
#[derive(Debug)]
pub(super) struct SimulatedFleet {
    random: fastrand::Rng,
    /// Whether hosts come and go more often than the database loses something.
    turnover: bool,
    data: Data,
    /// Every state that was committed, oldest first. The last one is `data`.
    history: Vec<Data>,
    server: u64,
    now_s: u64,
    /// The epoch in which the tables were restored by SQL. Hosts notice by what they remember.
    unnoticed: Option<u64>,
    hosts: Vec<SimulatedHost>,
    names: u128,
    /// The ranges that were issued, by tag and start.
    issued: BTreeMap<(Tag, u64), u64>,
    pub(super) duplicates: u64,
    pub(super) leases: u64,
    pub(super) losses: u64,
}

impl SimulatedFleet {
    pub(super) fn new(seed: u64) -> Self {
        let mut data = Data::default();
        data.rows.insert(0, 1);
        let mut fleet = Self {
            random: fastrand::Rng::with_seed(seed),
            turnover: seed % 2 == 1,
            history: vec![data.clone()],
            data,
            server: 1,
            now_s: 1_000_000,
            unnoticed: None,
            hosts: Vec::new(),
            names: 0,
            issued: BTreeMap::new(),
            duplicates: 0,
            leases: 0,
            losses: 0,
        };
        for _ in 0..fleet.random.usize(1..=4) {
            fleet.add_host();
        }
        fleet
    }

    fn new_name(&mut self) -> HostName {
        self.names += 1;
        HostName::of_number(self.names)
    }

    fn add_host(&mut self) {
        let memory = WitnessMemory::new(self.new_name());
        let disk = Disk { memory, marks: BTreeMap::new() };
        let backup = disk.clone();
        let host = SimulatedHost { disk, backup, life: None, is_cut_off: false, is_member: false };
        self.hosts.push(host);
        self.start(self.hosts.len() - 1);
    }

    fn start(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.life.is_none() {
            let memory = host.disk.memory.clone();
            let silence = SilenceWatch::default();
            host.life = Some(Life {
                memory,
                in_flight: None,
                raising: None,
                raised: None,
                silence,
                visited_s: None,
                open_since: None,
            });
        }
    }

    fn server(&self) -> String {
        format!("server {}", self.server)
    }

    fn epoch(&self) -> Option<u64> {
        self.data.witness.fleet.as_ref().map(|fleet| fleet.epoch)
    }

    fn is_unnoticed(&self) -> bool {
        let fleet = self.data.witness.fleet.as_ref();
        self.unnoticed.is_some() && self.unnoticed == self.epoch()
            || fleet.is_none_or(|fleet| fleet.server != self.server())
    }

    /// Whether an epoch is open that no host has witnessed, and there is one. If it lives, it comes in time.
    fn waits_for_a_witness(&self) -> bool {
        let fleet = self.data.witness.fleet.as_ref();
        let rows = || self.data.witness.hosts.values();
        let is_lapsed = rows().any(|row| row.presence == Presence::Lapsed)
            && rows().all(|row| row.presence != Presence::Here);
        fleet.is_some_and(|fleet| fleet.open && (!fleet.witnessed || is_lapsed))
            && self.hosts.iter().any(|host| host.is_member)
    }

    fn commit(&mut self) {
        self.history.push(self.data.clone());
    }

    /// One thing happens.
    pub(super) fn step(&mut self) {
        let at = self.random.usize(..self.hosts.len());
        // Losses, or hosts that come and go.
        let turnover = self.turnover;
        match self.random.u32(..1000) {
            0..=299 => self.lease(at),
            300..=429 => self.receive(at),
            430..=629 => {
                self.visit(at, false);
                if turnover && self.random.u8(..4) > 0 {
                    self.save(at);
                }
            }
            630..=709 => self.save(at),
            710..=889 => self.raise(at),
            890..=892 => self.hosts[at].life = None,
            893..=924 => self.start(at),
            925..=928 => self.stop(at),
            929..=936 if turnover => self.stop(at),
            937..=942 => self.hosts[at].is_cut_off = true,
            943..=964 => self.hosts[at].is_cut_off = false,
            965..=967 if self.hosts.len() < 5 => self.add_host(),
            968..=978 if self.waits_for_a_witness() => {}
            968..=969 => self.now_s += self.random.u64(..50),
            // Somebody that was there notices sooner.
            970..=972 if !self.is_unnoticed() => self.now_s += 400,
            973..=978 if turnover && !self.is_unnoticed() => self.now_s += 150,
            979..=980 => self.lose(),
            981..=982 if !turnover => self.lose(),
            983 => self.server += 1,
            984..=985 => self.restore_by_sql(),
            986 if !turnover => self.restore_host(at),
            _ => self.create(),
        }
    }

    fn reaches(&self, at: usize) -> bool {
        self.hosts[at].life.is_some() && !self.hosts[at].is_cut_off
    }

    fn may_lease(&self, at: usize) -> bool {
        let Some(life) = &self.hosts[at].life else { return false };
        let server = self.server();
        let seen = Seen {
            fleet: self.data.witness.fleet.as_ref(),
            own: self.data.witness.hosts.get(&life.memory.me),
            server: &server,
        };
        may_lease(&LeaseBasis::of(&life.memory), &seen).is_ok()
    }

    fn lease(&mut self, at: usize) {
        let tag = self.random.u8(..TAGS);
        let Some(row) = self.data.rows.get(&tag).copied() else { return };
        if !self.reaches(at) || !self.may_lease(at) {
            return;
        }
        let mark = self.hosts[at].disk.marks.get(&tag).copied().unwrap_or(0);
        let Some(life) = &mut self.hosts[at].life else { return };
        if life.in_flight.is_some() || (life.raising.is_some() && !mutated!(RaiseDuringLease)) {
            return;
        }
        let start = row.max(mark);
        life.in_flight = Some((tag, start, start + STEP));
        self.data.rows.insert(tag, start + STEP);
        self.commit();
    }

    /// The answer to a lease arrives, or is lost.
    fn receive(&mut self, at: usize) {
        let is_lost = self.random.u8(..8) == 0;
        let host = &mut self.hosts[at];
        let Some((tag, start, end)) = host.life.as_mut().and_then(|life| life.in_flight.take())
        else {
            return;
        };
        if is_lost {
            return;
        }
        host.disk.marks.insert(tag, end);
        self.leases += 1;
        let before = self.issued.range(..(tag, end)).next_back();
        if before.is_some_and(|((other, _), until)| *other == tag && *until > start) {
            self.duplicates += 1;
        }
        let until = self.issued.entry((tag, start)).or_insert(end);
        *until = end.max(*until);
    }

    fn visit(&mut self, at: usize, leaves: bool) {
        if !self.reaches(at) {
            return;
        }
        let server = self.server();
        let (is_lost, nonce) = (self.random.u8(..10) == 0, self.random.u64(1..));
        let Some(life) = &mut self.hosts[at].life else { return };
        let now = Duration::from_secs(self.now_s);
        let open = self.data.witness.fleet.as_ref().filter(|fleet| fleet.open);
        life.open_since = open.map(|fleet| {
            let before = life.open_since.filter(|(nonce, _)| *nonce == fleet.nonce);
            before.unwrap_or((fleet.nonce, self.now_s))
        });
        let open_s = life.open_since.map_or(0, |(_, since)| self.now_s - since);
        let silent = life.silence.silent(now);
        let facts = Visit {
            shown: "",
            server: &server,
            nonce,
            now_s: self.now_s,
            raised: life.raised,
            missing: MissingHosts::Wait,
            last_visit: life.visited_s.map(|then| Duration::from_secs(self.now_s - then)),
            open_for: Duration::from_secs(open_s),
            silent: &silent,
            leaves,
        };
        let visited = visit(&life.memory, &self.data.witness, &facts);
        let own = visited.table.hosts.get(&life.memory.me);
        let is_member = own.is_some_and(|own| own.presence.is_awaited());
        let tried = visited.table.hosts.get(&life.memory.me).map_or(0, |own| own.beat);
        life.memory.tried = life.memory.tried.max(tried);
        if !is_lost {
            life.silence.see(now, &visited.table);
            life.memory.learn(&visited.table);
            life.visited_s = Some(self.now_s);
            if all_know(&life.memory, &visited.table) {
                let own = visited.table.hosts.get(&life.memory.me);
                life.memory.known_as = own.map(|own| own.joined);
            }
        }
        self.hosts[at].is_member = is_member;
        self.data.witness = visited.table;
        self.commit();
    }

    fn save(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let Some(life) = &mut host.life else { return };
        life.memory.keep();
        host.disk.memory = WitnessMemory { known_as: None, tried: 0, ..life.memory.clone() };
        if self.random.u8(..20) == 0 {
            host.backup = host.disk.clone();
        }
    }

    /// Begins to raise rows, or raises the next one.
    fn raise(&mut self, at: usize) {
        let Some(fleet) = self.data.witness.fleet.as_ref().filter(|_| self.reaches(at)) else {
            return;
        };
        let target = Raised { epoch: fleet.epoch, nonce: fleet.nonce };
        let host = &mut self.hosts[at];
        let marks = &host.disk.marks;
        let Some(life) = &mut host.life else { return };
        let Some(raising) = &mut life.raising else {
            let is_raised = life.raised == Some(target);
            if !is_raised && (life.in_flight.is_none() || mutated!(RaiseDuringLease)) {
                let todo = marks.iter().map(|(tag, mark)| (*tag, *mark)).collect();
                life.raising = Some(Raising { target, todo });
            }
            return;
        };
        let Some((tag, mark)) = raising.todo.pop() else {
            life.raised = Some(raising.target);
            life.raising = None;
            return;
        };
        match self.data.rows.get_mut(&tag) {
            Some(row) => *row = mark.max(*row),
            None if mutated!(NoTombstone) => {}
            None => {
                let tombstone = self.data.tombstones.entry(tag).or_insert(mark);
                *tombstone = mark.max(*tombstone);
            }
        }
        self.commit();
    }

    fn stop(&mut self, at: usize) {
        if self.hosts[at].life.as_ref().is_some_and(|life| life.in_flight.is_none()) {
            if let Some(life) = &mut self.hosts[at].life {
                life.memory.leave();
            }
            self.save(at);
            self.visit(at, true);
            self.save(at);
            self.hosts[at].life = None;
        }
    }

    /// Somebody makes a tag that has no row.
    fn create(&mut self) {
        let tag = self.random.u8(..TAGS);
        let at = self.random.usize(..self.hosts.len());
        let may = self.may_lease(at);
        if self.data.rows.contains_key(&tag) || !self.reaches(at) || !may {
            return;
        }
        let first = self.data.tombstones.get(&tag).copied().unwrap_or(1);
        self.data.rows.insert(tag, first);
        self.commit();
    }

    /// Unless nobody is left that knows of the others: not the table, and no host.
    fn go_back_to(&mut self, version: usize) {
        let mut rows = self.history[version].witness.hosts.values();
        let is_in_table = rows.any(|row| row.presence == Presence::Here);
        if !is_in_table && !self.hosts.iter().any(|host| host.is_member) {
            return;
        }
        self.history.truncate(version + 1);
        self.data = self.history[version].clone();
        self.losses += 1;
    }

    /// A replica that lacks the latest commits takes over, or a copy of the data is restored.
    fn lose(&mut self) {
        let most = self.history.len() - 1;
        let lost = if self.random.bool() { most.min(6) } else { most };
        let lost = self.random.usize(..=lost);
        self.go_back_to(most - lost);
        self.server += 1;
    }

    /// The tables are restored while the server runs, to a state that is older than every host's last write.
    fn restore_by_sql(&mut self) {
        let version = self.random.usize(..self.history.len());
        let old = &self.history[version].witness.hosts;
        // Without a host, a newcomer has nobody to wait for.
        if old.values().all(|row| row.presence != Presence::Here) {
            return;
        }
        let is_older = self.hosts.iter().all(|host| {
            let memory = &host.disk.memory;
            let known = memory.hosts.get(&memory.me);
            let beat = old.get(&memory.me).map_or(0, |row| row.beat);
            beat < memory.own_beat()
                || known.is_none_or(|known| known.presence != Presence::Here)
                    && old.get(&memory.me).is_none_or(|row| row.presence != Presence::Here)
                    && host.life.is_none()
        });
        if is_older {
            self.go_back_to(version);
            self.unnoticed = self.epoch();
        }
    }

    /// A host's disk is restored from a backup, which leafd notices.
    fn restore_host(&mut self, at: usize) {
        if self.random.u8(..4) > 0 || self.is_unnoticed() || self.waits_for_a_witness() {
            return;
        }
        let memory = WitnessMemory::new(self.new_name());
        let host = &mut self.hosts[at];
        host.disk = Disk { memory, marks: host.backup.marks.clone() };
        host.backup = host.disk.clone();
        host.is_member = false;
        host.life = None;
    }

    /// An operator who knows how far the missing hosts had got goes on without them.
    fn accept_loss(&mut self) {
        let missing: Vec<_> = self.data.witness.missing().map(|(name, _)| *name).collect();
        if missing.is_empty() {
            return;
        }
        go_on_without_missing(&mut self.data.witness);
        for tag in 0..TAGS {
            let end = self.issued.range(..=(tag, u64::MAX)).map(|(_, end)| *end).max().unwrap_or(1);
            let mark = self.data.tombstones.entry(tag).or_insert(end);
            *mark = end.max(*mark);
            if let Some(row) = self.data.rows.get_mut(&tag) {
                *row = end.max(*row);
            }
        }
        self.commit();
    }

    /// Hosts that join wait no longer for those that do not answer.
    fn give_up_waiting(&mut self) {
        for life in self.hosts.iter_mut().filter_map(|host| host.life.as_mut()) {
            let own = self.data.witness.hosts.get(&life.memory.me);
            life.memory.known_as = own.map(|own| own.joined);
        }
    }

    /// All faults end. Returns whether every host leases again.
    pub(super) fn recovers(&mut self) -> bool {
        for at in 0..self.hosts.len() {
            self.hosts[at].is_cut_off = false;
            self.start(at);
        }
        for round in 0..200 {
            // A name that no host has any more.
            if round == 60 || round == 120 {
                self.accept_loss();
                self.give_up_waiting();
            }
            for at in 0..self.hosts.len() {
                self.visit(at, false);
                self.save(at);
                self.receive(at);
                for _ in 0..=usize::from(TAGS) + 1 {
                    self.raise(at);
                }
            }
            self.now_s += 5;
        }
        (0..self.hosts.len()).all(|at| self.may_lease(at))
    }
}
