//! The processes below leafctl, and signals to them. Which processes those are is decided by a pure
//! function of what `/proc` shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// A process. A number alone is given to another process later; with its start it names one for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessName {
    pid: i32,
    /// In ticks since the host started.
    start: u64,
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    name: ProcessName,
    parent: i32,
    has_ended: bool,
}

impl ProcessStat {
    fn parse(pid: i32, text: &str) -> Option<Self> {
        // The program's name is in parentheses and may itself contain some.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let start = fields.get(19)?.parse().ok()?;
        Some(Self {
            name: ProcessName { pid, start },
            parent: fields.get(1)?.parse().ok()?,
            has_ended: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The processes below `root`, without `spared` ones and what is below those. Those that have ended
/// are left out.
fn below(root: i32, all: &[ProcessStat], spared: &BTreeSet<ProcessName>) -> BTreeSet<ProcessName> {
    let mut children: BTreeMap<i32, Vec<&ProcessStat>> = BTreeMap::new();
    for process in all.iter().filter(|process| !spared.contains(&process.name)) {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut parents) = (BTreeSet::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        // Taken out, so that no loop can come from a /proc that changes while it is read.
        for process in children.remove(&parent).unwrap_or_default() {
            parents.push(process.name.pid);
            if !process.has_ended {
                found.insert(process.name);
            }
        }
    }
    found
}

/// The processes below this one.
pub(super) fn descendants(spared: &BTreeSet<ProcessName>) -> BTreeSet<ProcessName> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<ProcessStat> = pids.filter_map(ProcessStat::read).collect();
    below(Pid::this().as_raw(), &all, spared)
}

/// The processes with these numbers, except this one.
pub(super) fn named(pids: &[i32]) -> impl Iterator<Item = ProcessName> {
    let others = pids.iter().filter(|pid| **pid != Pid::this().as_raw());
    others.filter_map(|pid| ProcessStat::read(*pid)).map(|process| process.name)
}

/// Sends `signal` to `process`, and to no other that got its number meanwhile.
///
/// # Errors
/// When the system refuses, for example because the process has another user. A process that has
/// ended is no error.
pub(super) fn signal(process: ProcessName, signal: Signal) -> Result<(), Errno> {
    let Some(pid) = rustix::process::Pid::from_raw(process.pid) else { return Ok(()) };
    // The descriptor comes first: what `/proc` then shows under the number is what it stands for, or
    // the process behind it has ended.
    let opened = pidfd_open(pid, PidfdFlags::empty());
    if ProcessStat::read(process.pid).is_none_or(|found| found.name != process) {
        return Ok(());
    }
    let sent = match (opened, rustix::process::Signal::from_named_raw(signal as i32)) {
        (Ok(descriptor), Some(number)) => pidfd_send_signal(descriptor, number)
            .map_err(|error| Errno::from_raw(error.raw_os_error())),
        // Linux before 5.3, or no descriptor left.
        _ => kill(Pid::from_raw(process.pid), signal),
    };
    match sent {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> ProcessStat {
        ProcessStat { name: ProcessName { pid, start: 7 }, parent, has_ended: false }
    }

    fn pids(found: &BTreeSet<ProcessName>) -> Vec<i32> {
        found.iter().map(|process| process.pid).collect()
    }

    #[test]
    fn children_of_children_are_found_and_others_are_not() {
        let mut all = vec![process(10, 1), process(11, 10), process(12, 11), process(20, 1)];
        all.push(ProcessStat { has_ended: true, ..process(13, 12) });
        assert_eq!(pids(&below(10, &all, &BTreeSet::new())), [11, 12]);
        assert_eq!(pids(&below(1, &all, &BTreeSet::new())), [10, 11, 12, 20]);
    }

    #[test]
    fn what_ran_before_the_command_is_spared_with_its_children() {
        let all = [process(11, 10), process(12, 11), process(13, 10)];
        let spared = BTreeSet::from([ProcessName { pid: 11, start: 7 }]);
        assert_eq!(pids(&below(10, &all, &spared)), [13]);
        let earlier = BTreeSet::from([ProcessName { pid: 11, start: 6 }]);
        assert_eq!(pids(&below(10, &all, &earlier)), [11, 12, 13], "the number was given again");
    }

    #[test]
    fn a_changing_proc_makes_no_endless_loop() {
        let circle = [process(11, 12), process(12, 11)];
        assert!(below(10, &circle, &BTreeSet::new()).is_empty());
        assert_eq!(pids(&below(10, &[process(10, 10)], &BTreeSet::new())), [10]);
    }

    #[test]
    fn a_program_may_be_called_anything() {
        let text = "42 (a) S 1 (b)) Z 7 42 42 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 9000 0 0";
        let parsed = ProcessStat::parse(42, text).unwrap();
        assert_eq!((parsed.parent, parsed.name.start, parsed.has_ended), (7, 9000, true));
        assert_eq!(ProcessStat::parse(42, "42 (a) S"), None);
    }

    #[test]
    fn a_process_that_got_the_number_of_another_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let name = ProcessStat::read(pid).unwrap().name;
        signal(ProcessName { start: name.start + 1, ..name }, Signal::SIGKILL).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        assert!(descendants(&BTreeSet::new()).contains(&name));
        signal(name, Signal::SIGKILL).unwrap();
        assert!(!child.wait().unwrap().success());
        signal(name, Signal::SIGKILL).unwrap();
    }
}
