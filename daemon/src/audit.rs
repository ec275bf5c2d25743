//! Checks whether leases of any number of hosts overlap: a proof, on a user's own data, that no two
//! hosts got the same ID. It reads lease logs and changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, BufRead, Read};

use serde::Serialize;

use crate::state::lease_log::Entry;

/// Longest line, in bytes. A longer one is damaged: no tag, machine or place is that long.
const LONGEST_LINE: u64 = 64 << 10;

/// A range that a host has leased.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct LoggedLease {
    /// The database's identity, or else its place.
    pub database: String,
    /// The tag whose range it is.
    pub tag: String,
    /// The first ID.
    pub start: u64,
    /// One past the last ID.
    pub end: u64,
    /// When the host leased it, by its own clock (ms since 1970).
    pub time_ms: u64,
    /// The host's machine ID, and its identity if it has one.
    pub host: String,
}

/// Two leases with IDs in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The first ID that both have.
    pub start: u64,
    /// One past the last ID that both have.
    pub end: u64,
    /// The lease that begins first.
    pub one: LoggedLease,
    /// The lease that overlaps it.
    pub other: LoggedLease,
}

/// Collects the leases of any number of logs.
#[derive(Debug, Default)]
pub struct Audit {
    leases: HashSet<LoggedLease>,
    hosts: BTreeSet<String>,
    /// Lines that cannot be parsed.
    damaged: u64,
    /// Places where a host could not write its log.
    gaps: u64,
    /// Leases from databases that have no identity, only a place.
    nameless: u64,
}

/// The result of an audit.
#[derive(Debug, Serialize)]
pub struct AuditReport {
    /// Hosts that have leased.
    pub hosts: usize,
    /// Databases that hosts have leased from.
    pub databases: usize,
    /// Tags, counted per database.
    pub tags: usize,
    /// Leases; a lease in several files counts once.
    pub leases: usize,
    /// Lines that cannot be parsed: their leases are missing here.
    pub damaged_lines: u64,
    /// Places where leases are missing because a host could not write its log.
    pub gaps: u64,
    /// Leases from databases without an identity. If hosts reach such a database under different
    /// addresses, their leases are not compared.
    pub leases_without_identity: u64,
    /// Leases with IDs in common.
    pub overlaps: Vec<Overlap>,
}

impl Audit {
    /// Adds the leases of a log.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(&mut self, mut log: impl BufRead) -> io::Result<()> {
        let (mut host, mut place) = (String::from("unknown"), String::from("unknown"));
        let mut line = Vec::new();
        loop {
            line.clear();
            if log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let text = std::str::from_utf8(&line).unwrap_or_default();
            match text.strip_suffix('\n').and_then(Entry::read) {
                Some(Entry::Start { machine, identity, place: at, .. }) => {
                    host =
                        if identity.is_empty() { machine } else { format!("{machine} {identity}") };
                    place = at;
                }
                Some(Entry::Lease { time_ms, database, tag, range }) => {
                    self.nameless += u64::from(database.is_none());
                    self.hosts.insert(host.clone());
                    self.leases.insert(LoggedLease {
                        database: database.map_or_else(|| place.clone(), |id| id.to_string()),
                        tag,
                        start: range.start(),
                        end: range.end(),
                        time_ms,
                        host: host.clone(),
                    });
                }
                Some(Entry::Gap { .. }) => self.gaps += 1,
                None => self.damaged += 1,
            }
        }
    }

    /// Compares all leases.
    #[must_use]
    pub fn report(self) -> AuditReport {
        let mut by_tag: BTreeMap<(String, String), Vec<LoggedLease>> = BTreeMap::new();
        let leases = self.leases.len();
        for lease in self.leases {
            let key = (lease.database.clone(), lease.tag.clone());
            by_tag.entry(key).or_default().push(lease);
        }
        let databases: BTreeSet<_> = by_tag.keys().map(|(database, _)| database).collect();
        AuditReport {
            hosts: self.hosts.len(),
            databases: databases.len(),
            tags: by_tag.len(),
            leases,
            damaged_lines: self.damaged,
            gaps: self.gaps,
            leases_without_identity: self.nameless,
            overlaps: by_tag.into_values().flat_map(overlaps).collect(),
        }
    }
}

/// The overlaps among leases of one tag. A lease that overlaps several earlier ones is paired with
/// the one that reaches furthest.
fn overlaps(mut leases: Vec<LoggedLease>) -> Vec<Overlap> {
    leases.sort_by(|a, b| {
        (a.start, a.end, a.time_ms, &a.host).cmp(&(b.start, b.end, b.time_ms, &b.host))
    });
    let mut found = Vec::new();
    let mut furthest: Option<LoggedLease> = None;
    for lease in leases {
        if let Some(one) = furthest.as_ref().filter(|one| lease.start < one.end) {
            let (start, end) = (lease.start, lease.end.min(one.end));
            found.push(Overlap { start, end, one: one.clone(), other: lease.clone() });
        }
        if furthest.as_ref().is_none_or(|one| one.end < lease.end) {
            furthest = Some(lease);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lease(host: &str, start: u64, count: u64) -> LoggedLease {
        LoggedLease {
            database: "d".into(),
            tag: "orders".into(),
            start,
            end: start + count,
            time_ms: start,
            host: host.into(),
        }
    }

    fn audit(leases: impl IntoIterator<Item = LoggedLease>) -> AuditReport {
        Audit { leases: leases.into_iter().collect(), ..Audit::default() }.report()
    }

    #[test]
    fn adjacent_ranges_do_not_overlap_and_one_common_id_is_an_overlap() {
        let report = audit([lease("a", 1, 100), lease("b", 101, 100), lease("a", 201, 1)]);
        assert_eq!((report.leases, report.overlaps), (3, vec![]));
        let report = audit([lease("a", 1, 100), lease("b", 100, 100)]);
        let [overlap] = report.overlaps.as_slice() else { panic!("{report:?}") };
        assert_eq!((overlap.start, overlap.end), (100, 101));
        assert_eq!((overlap.one.host.as_str(), overlap.other.host.as_str()), ("a", "b"));
    }

    #[test]
    fn equal_ids_of_two_tags_or_two_databases_are_no_overlap_and_a_log_read_twice_is_none() {
        let other_tag = LoggedLease { tag: "invoices".into(), ..lease("b", 1, 100) };
        let elsewhere = LoggedLease { database: "e".into(), ..lease("b", 1, 100) };
        let report = audit([lease("a", 1, 100), lease("a", 1, 100), other_tag, elsewhere]);
        assert_eq!((report.databases, report.tags, report.leases), (2, 3, 3));
        assert_eq!(report.overlaps, vec![]);
    }

    #[test]
    fn damaged_lines_are_counted_and_do_not_affect_others() {
        let mut audit = Audit::default();
        let long = "x".repeat(200_000);
        audit.read(format!("\nnonsense\n{long}\n\u{e9}").as_bytes()).unwrap();
        audit.read(&b"\xff\xfe\n"[..]).unwrap();
        let report = audit.report();
        assert!(report.damaged_lines >= 5 && report.leases == 0, "{report:?}");
    }

    proptest! {
        #[test]
        fn overlaps_are_found_exactly_if_two_leases_have_an_id_in_common(
            spans in proptest::collection::vec((1..60_u64, 1..20_u64), 0..12),
        ) {
            let leases: HashSet<LoggedLease> =
                spans.iter().map(|&(start, count)| lease("a", start, count)).collect();
            let all: Vec<_> = leases.iter().collect();
            let common = |a: &LoggedLease, b: &LoggedLease| a.start < b.end && b.start < a.end;
            let any = (0..all.len())
                .any(|one| all[one + 1..].iter().any(|other| common(all[one], other)));
            let report = audit(leases.clone());
            prop_assert_eq!(any, !report.overlaps.is_empty());
            for overlap in &report.overlaps {
                prop_assert!(common(&overlap.one, &overlap.other));
                prop_assert!(overlap.start < overlap.end && overlap.one != overlap.other);
            }
        }
    }
}
