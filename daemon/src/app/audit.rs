//! `leafd audit`: checks whether leases of any number of hosts overlap.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::print;
use crate::audit::{Audit, AuditReport, LoggedLease};
use crate::rfc3339::rfc3339;
use crate::state::lease_log::{FILE, OLDER, older};

/// Reads lease logs, or state directories that contain them, and prints the result.
///
/// # Errors
/// When leases overlap, or a log cannot be read.
pub fn audit(paths: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut audit = Audit::default();
    for path in paths {
        for file in files(path)? {
            let read = File::open(&file).and_then(|log| audit.read(BufReader::new(log)));
            read.map_err(|error| Failure::unreadable(&file, &error))?;
        }
    }
    let report = audit.report();
    if json {
        let text = serde_json::to_string_pretty(&report);
        print(&(text.map_err(|error| Failure::software(&error.to_string()))? + "\n"))?;
    } else {
        print(&text(&report))?;
    }
    if report.overlaps.is_empty() { Ok(()) } else { Err(Failure::overlaps(report.overlaps.len())) }
}

/// The logs at a path: the file itself, or those of a state directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::unreadable(path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let newest = path.join(FILE);
    let all = (1..=OLDER).map(|number| older(&newest, number)).chain([newest.clone()]);
    let there: Vec<_> = all.filter(|file| file.exists()).collect();
    if there.is_empty() {
        return Err(Failure::unreadable(&newest, &ErrorKind::NotFound.into()));
    }
    Ok(there)
}

fn text(report: &AuditReport) -> String {
    let mut out = String::new();
    let lease = |lease: &LoggedLease| {
        format!(
            "  {} to {}, leased at {} by {}",
            lease.start,
            lease.end - 1,
            rfc3339(lease.time_ms),
            lease.host
        )
    };
    // Writing to a String cannot fail.
    for overlap in &report.overlaps {
        let (tag, database) = (&overlap.one.tag, &overlap.one.database);
        let (first, last) = (overlap.start, overlap.end - 1);
        let _ = writeln!(out, "OVERLAP: {first} to {last} of tag {tag:?} in database {database}");
        let _ = writeln!(out, "{}\n{}", lease(&overlap.one), lease(&overlap.other));
    }
    let AuditReport { hosts, databases, tags, leases, .. } = report;
    let _ = writeln!(
        out,
        "{leases} leases of {tags} tags by {hosts} hosts from {databases} databases: {}",
        match report.overlaps.len() {
            0 => "no range was leased twice".to_owned(),
            n => format!("{n} overlap with others"),
        }
    );
    for (count, what) in [
        (report.damaged_lines, "damaged lines; their leases are missing here"),
        (report.gaps, "times a host could not write its log; those leases are missing here"),
        (
            report.leases_without_identity,
            "leases come from a database without an identity; if hosts reach it under different \
             addresses, their leases were not compared",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "note: {count} {what}");
        }
    }
    out
}
