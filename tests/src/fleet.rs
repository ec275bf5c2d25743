//! Many daemons on one table. Each has clients that keep asking, and may be killed at any moment.

use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

use leaf_client::blocking;
use leafd::audit::Audit;
use leafd::state::lease_log;
use tempfile::TempDir;

use crate::PATIENCE;
use crate::daemon::{Daemon, Ended, Home};
use crate::load::{Failures, Load, add};
use crate::store_server::StoreServer;
use crate::unique_ids::UniqueIds;

/// The daemons, with their clients.
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
    /// Clients with a long timeout, which never see a failure.
    patient: Load,
    /// Clients with a short timeout.
    hasty: Load,
    _folder: TempDir,
}

/// The calls of all clients that failed.
#[derive(Debug)]
pub struct FleetFailures {
    /// Of the clients with a long timeout.
    pub patient: Failures,
    /// Of the clients with a short timeout.
    pub hasty: Failures,
}

impl Fleet {
    /// Starts `size` daemons with these settings, each as a host of its own, and their clients: a
    /// patient client for every tag and a hasty one for the last tag.
    #[must_use]
    pub fn start(
        size: u64,
        server: &StoreServer,
        settings: &[(&str, &str)],
        tags: &[&str],
        seen: &UniqueIds,
    ) -> Self {
        let members = (1..=size).map(|number| {
            let folder = tempfile::tempdir().expect("a folder");
            let home = Home::new(folder.path())
                .with_store(server)
                .with("STATE_MACHINE_ID", &format!("host-{number}"))
                .with("WORKER_ID", &number.to_string())
                // Logs every lease.
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

    /// Kills a random daemon, or sometimes stops it, and starts some of those that are down.
    pub fn disturb(&mut self) {
        let running = self.members.iter_mut().filter(|member| member.daemon.is_some());
        let mut running: Vec<_> = running.collect();
        if !running.is_empty() {
            let chosen = running.swap_remove(fastrand::usize(..running.len()));
            if let Some(daemon) = chosen.daemon.take() {
                // SIGTERM kills a program that has not installed its handler yet.
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

    /// Starts all daemons that are down, and waits until every client has been served twice more. At
    /// most one of the two calls was in flight before.
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
                    assert!(!load.is_broken(), "a client has ended\n{}", self.logs());
                    assert!(began.elapsed() < PATIENCE, "a client is not served\n{}", log());
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// The logs of all daemons.
    fn logs(&self) -> String {
        let logs = (1..).zip(&self.members);
        logs.map(|(number, member)| format!("host-{number}:\n{}", member.home.log())).collect()
    }

    /// How many daemons were killed, and how many were stopped.
    #[must_use]
    pub const fn ends(&self) -> (u64, u64) {
        (self.kills, self.stops)
    }

    /// Asserts that `leafd audit` finds no ID that two hosts leased.
    pub fn audit(&self) {
        let mut audit = Audit::default();
        for member in &self.members {
            let log = member.home.state().join(lease_log::FILE);
            let log = File::open(&log).expect("a lease log");
            audit.read(BufReader::new(log)).expect("a lease log that can be read");
        }
        let report = audit.report();
        assert_eq!(report.overlaps, [], "two hosts leased the same IDs");
        // A kill leaves no half line: leafd writes a line with one call.
        assert_eq!((report.hosts, report.damaged_lines, report.gaps), (self.members.len(), 0, 0));
    }

    /// Stops the clients and the daemons. Returns the failed calls, and the daemons' logs.
    pub fn finish(self) -> (FleetFailures, Vec<Ended>) {
        let mut failures = FleetFailures { patient: Failures::new(), hasty: Failures::new() };
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
    /// The tag.
    pub tag: String,
    /// The first ID of the range.
    pub first: u64,
    /// Number of IDs in the range.
    pub count: u64,
}

/// The leases in a log. The last lease of a killed daemon may be missing.
#[must_use]
pub fn leases_in(log: &str) -> Vec<Leased> {
    log.lines().filter_map(leased).collect()
}

fn leased(line: &str) -> Option<Leased> {
    // The last match, since the next line may follow right behind one that a kill cut off.
    let (_, values) = line.rsplit_once("leased a range ")?;
    let value = |key| values.split(' ').find_map(|word| word.strip_prefix(key));
    let number = |key| value(key)?.parse::<u64>().ok();
    let tag = value("tag=")?.trim_matches('"').to_owned();
    let (first, end) = (number("start=")?, number("end=")?);
    // The last word of the line: without it, the word before may be incomplete.
    value("row_step=")?;
    Some(Leased { tag, first, count: end - first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_about_leases_are_read_from_a_log_and_lines_that_were_cut_off_are_not() {
        let line = "2026-01-01T00:00:00Z DEBUG leased a range tag=\"a\" start=5 end=15 row_step=10";
        let (cut, _) = line.split_once("5 row_step").unwrap();
        let log = format!("{line}\nINFO else\n{cut}{line}\n{cut}");
        let leased = Leased { tag: "a".to_owned(), first: 5, count: 10 };
        assert_eq!(leases_in(&log), [leased.clone(), leased]);
    }
}
