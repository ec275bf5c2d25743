//! Many daemons on one table, each with clients that ask all the time, and with an end that comes
//! at any moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

use leaf_client::blocking;
use leafd::audit::Audit;
use leafd::state::lease_log;
use tempfile::TempDir;

use crate::daemon::{Daemon, Ended, Home};
use crate::database::Database;
use crate::load::{Load, add};
use crate::seen::Seen;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Daemons with their clients.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    kills: u64,
    stops: u64,
}

#[derive(Debug)]
struct Member {
    home: Home,
    daemon: Option<Daemon>,
    /// Clients that wait as long as a daemon lets them.
    patient: Load,
    /// Clients that give up soon.
    hasty: Load,
    _folder: TempDir,
}

/// What clients have seen fail in all, by the name of the error.
#[derive(Debug)]
pub struct Failures {
    /// Of those with patience.
    pub patient: BTreeMap<&'static str, u64>,
    /// Of those without.
    pub hasty: BTreeMap<&'static str, u64>,
}

impl Fleet {
    /// Starts `size` daemons, as hosts of their own, with these settings, and clients: on each
    /// daemon a patient one for every tag and a hasty one for the last.
    ///
    /// # Panics
    /// When one does not start, or without a tag.
    #[must_use]
    pub fn start(
        size: u64,
        database: &Database,
        settings: &[(&str, &str)],
        tags: &[&str],
        seen: &Seen,
    ) -> Self {
        let members = (1..=size).map(|number| {
            let folder = tempfile::tempdir().expect("a folder");
            let home = Home::new(folder.path())
                .with_database(database)
                .with("STATE_MACHINE_ID", &format!("host-{number}"))
                .with("WORKER_ID", &number.to_string())
                // Every lease is told.
                .with("LOG_LEVEL", "leafd=info,leafd::segment::lease=debug");
            let home = settings.iter().fold(home, |home, (key, value)| home.with(key, value));
            let daemon = home.start();
            let patient = home.options().timeout(PATIENCE);
            let hasty = home.options().timeout(Duration::from_millis(200));
            let last = tags.last().expect("a tag");
            Member {
                patient: Load::start(&patient, seen, tags, 3000),
                hasty: Load::start(&hasty, seen, &[last], 3000),
                home,
                daemon: Some(daemon),
                _folder: folder,
            }
        });
        Self { members: members.collect(), kills: 0, stops: 0 }
    }

    /// Ends a daemon, mostly with SIGKILL, sometimes in order, and starts some of those that are
    /// down.
    ///
    /// # Panics
    /// When one has ended by itself, or a client has ended.
    pub fn disturb(&mut self) {
        let running = self.members.iter_mut().filter(|member| member.daemon.is_some());
        let mut running: Vec<_> = running.collect();
        if !running.is_empty() {
            let chosen = running.swap_remove(fastrand::usize(..running.len()));
            if let Some(daemon) = chosen.daemon.take() {
                // In its first moments a program does not know what to do with a SIGTERM.
                if fastrand::u8(..4) == 0 && answers(&daemon) {
                    daemon.stop();
                    self.stops += 1;
                } else {
                    daemon.kill();
                    self.kills += 1;
                }
            }
        }
        for member in &mut self.members {
            if member.daemon.is_none() && fastrand::bool() {
                member.daemon = Some(member.home.spawn());
            }
            let broken = member.patient.is_broken() || member.hasty.is_broken();
            assert!(!broken, "a client has ended\n{}", member.home.log());
        }
    }

    /// Starts all that are down, and waits until every client has been served twice more: at most
    /// one call was under way before.
    ///
    /// # Panics
    /// When one is not.
    pub fn recover(&mut self) {
        for member in &mut self.members {
            if member.daemon.is_none() {
                member.daemon = Some(member.home.start());
            }
        }
        let began = Instant::now();
        for member in &self.members {
            for load in [&member.patient, &member.hasty] {
                let before = load.served();
                while load.served().iter().zip(&before).any(|(now, before)| *now < before + 2) {
                    let log = || member.home.log();
                    assert!(!load.is_broken(), "a client has ended\n{}", log());
                    assert!(began.elapsed() < PATIENCE, "a client is not served\n{}", log());
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// How many daemons were killed, and how many were stopped.
    #[must_use]
    pub const fn ends(&self) -> (u64, u64) {
        (self.kills, self.stops)
    }

    /// Has `leafd audit` compare what all hosts leased.
    ///
    /// # Panics
    /// When two leases have an ID in common, or hardly any were found.
    pub fn audit(&self) {
        let mut audit = Audit::default();
        for member in &self.members {
            let log = member.home.state().join(lease_log::FILE);
            let log = File::open(&log).expect("a lease log");
            audit.read(BufReader::new(log)).expect("a lease log that can be read");
        }
        let report = audit.report();
        assert_eq!(report.overlaps, [], "two hosts leased the same IDs");
        // A kill cuts no line: it is written with one call.
        assert_eq!((report.hosts, report.damaged_lines, report.gaps), (self.members.len(), 0, 0));
    }

    /// Ends clients and daemons, and returns what the clients saw fail, and what the daemons left.
    ///
    /// # Panics
    /// When a client has seen an ID twice, or a daemon does not end well.
    pub fn finish(self) -> (Failures, Vec<Ended>) {
        let mut failures = Failures { patient: BTreeMap::new(), hasty: BTreeMap::new() };
        let mut ended = Vec::new();
        for member in self.members {
            add(&mut failures.patient, &member.patient.finish_with_names());
            add(&mut failures.hasty, &member.hasty.finish_with_names());
            let daemon = member.daemon.unwrap_or_else(|| member.home.start());
            ended.push(daemon.stop());
        }
        (failures, ended)
    }
}

fn answers(daemon: &Daemon) -> bool {
    let options = daemon.home().options().timeout(Duration::from_millis(200));
    blocking::Client::connect(options).is_ok()
}

/// A range that a daemon leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// Of this tag.
    pub tag: String,
    /// Its first ID.
    pub first: u64,
    /// How many it has.
    pub count: u64,
}

/// The leases that a log tells of. A kill may come before a line, or cut it.
#[must_use]
pub fn leases_in(log: &str) -> Vec<Leased> {
    log.lines().filter_map(leased).collect()
}

fn leased(line: &str) -> Option<Leased> {
    // Not the first of two: behind a line that was cut stands the next one.
    let (_, values) = line.rsplit_once("leased a range ")?;
    let value = |key| values.split(' ').find_map(|word| word.strip_prefix(key));
    let number = |key| value(key)?.parse::<u64>().ok();
    let tag = value("tag=")?.trim_matches('"').to_owned();
    let (first, end) = (number("start=")?, number("end=")?);
    // The last word; without it, the one before may be cut.
    value("row_step=")?;
    Some(Leased { tag, first, count: end - first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_read_from_a_log_and_lines_that_were_cut_are_not() {
        let line = "2026-01-01T00:00:00Z DEBUG leased a range tag=\"a\" start=5 end=15 row_step=10";
        let (cut, _) = line.split_once("5 row_step").unwrap();
        let log = format!("{line}\nINFO else\n{cut}{line}\n{cut}");
        let leased = Leased { tag: "a".to_owned(), first: 5, count: 10 };
        assert_eq!(leases_in(&log), [leased.clone(), leased]);
    }
}
