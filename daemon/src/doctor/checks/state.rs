//! The state directory: whether it lasts, whether it can go back in time, and whether leafd can write
//! to it.

use super::some_of;
use crate::doctor::facts::{DiskFacts, Facts, Seen, StateFacts};
use crate::doctor::finding::{Check, Finding};
use crate::doctor::mounts::StorageKind;

/// With less than this, a journal that grows no longer fits. leafd needs some MB.
const FULL_BYTES: u64 = 16 << 20;

/// With less than this, and less than a twentieth of the disk, it is nearly full.
const NEARLY_FULL_BYTES: u64 = 1 << 30;

/// With fewer inodes than this, new files soon fail.
const FEW_INODES: u64 = 1000;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    let state = match &facts.state {
        Seen::As(state) => state,
        Seen::Not(why) => {
            out.push(
                Finding::unknown(Check::StateFiles, "cannot look at the state directory")
                    .because(why.as_str())
                    .remedy("Run this as root or as leafd's user."),
            );
            return;
        }
        Seen::Nothing => {
            // Without a daemon there is no directory before the first start.
            if facts.status().is_some() {
                out.push(
                    Finding::unknown(Check::StateFiles, "the state directory is not visible here")
                        .because("leafd may run in a container or with a mount of its own.")
                        .remedy("Run doctor where leafd runs, as with kubectl exec."),
                );
            }
            return;
        }
    };
    lasts(facts, state, out);
    snapshots(state, out);
    files(facts, state, out);
    disk(state, out);
}

fn lasts(facts: &Facts, state: &StateFacts, out: &mut Vec<Finding>) {
    let check = Check::StateLasts;
    let path = state.path.display();
    let (ends, on) = match state.storage {
        StorageKind::Memory => ("with the next boot", "memory (tmpfs)"),
        StorageKind::Overlay => ("with its container", "a container's own layer (overlay)"),
        StorageKind::EmptyDir => ("with its pod", "an emptyDir"),
        StorageKind::Network => {
            out.push(
                Finding::note(check, "the state directory is on another host's disk")
                    .because(format!(
                        "{path} is on {}. An outage there stops leafd.",
                        state.mount.kind
                    ))
                    .remedy("Use a local disk if there is one."),
            );
            return;
        }
        StorageKind::Disk | StorageKind::Btrfs | StorageKind::Zfs | StorageKind::Lvm => {
            out.push(Finding::ok(check, "the state directory is on a disk"));
            return;
        }
    };
    let title = format!("the state directory ends {ends}");
    let gives_back = facts.config().is_some_and(|config| config.worker.give_back);
    out.push(if facts.has_shared_store() != Some(true) {
        Finding::bad(check, title)
            .because(format!(
                "{path} is on {on}, and the embedded store is in it: every tag would then begin at 1 \
                 again and repeat its IDs."
            ))
            .remedy("Put state.dir on a disk, in containers on a persistent volume.")
    } else if facts.wants_snowflakes() == Some(false) {
        Finding::ok(check, format!("{title}, which costs a gap per tag"))
    } else if facts.has_fixed_worker() == Some(true) {
        Finding::warn(check, title)
            .because(format!(
                "{path} is on {on}. After that nothing tells leafd how far worker.id was used: a clock \
                 that was ahead then repeats IDs."
            ))
            .remedy("Put state.dir on a disk, or take worker IDs from ZooKeeper.")
    } else if gives_back {
        Finding::ok(check, format!("{title}, and gives its worker ID back"))
    } else {
        Finding::note(check, title)
            .because(format!("{path} is on {on}. Each new one takes another worker ID."))
            .remedy("Set worker.give-back = true, or put state.dir on a disk.")
    });
}

fn snapshots(state: &StateFacts, out: &mut Vec<Finding>) {
    let check = Check::Snapshots;
    let path = state.path.display();
    let repeats = "Who rolls the volume back brings old state back, which leafd cannot detect: IDs \
                   then come twice.";
    out.push(match state.storage {
        StorageKind::Btrfs => Finding::warn(check, "snapshots of the btrfs have the state in them")
            .because(format!("{path} is no subvolume of its own. {repeats}"))
            .remedy(format!(
                "With leafd stopped, make {path} a subvolume of its own (btrfs subvolume create) and \
                 move the files with `leafd adopt`."
            )),
        StorageKind::Zfs => Finding::warn(check, "the state is on ZFS, which can be rolled back")
            .because(format!("{path} is on {}. {repeats}", state.mount.source))
            .remedy("Give it a dataset of its own that nobody snapshots (com.sun:auto-snapshot=false)."),
        StorageKind::Lvm => Finding::note(check, "the state is on a logical volume")
            .because(format!("{path} is on {}. {repeats}", state.mount.source))
            .remedy("Never merge a snapshot back, unless leafd is stopped and adopts the state."),
        _ => Finding::ok(check, "no sign of snapshots of the state directory")
            .because("Snapshots of a whole machine cannot be seen from within."),
    });
}

fn files(facts: &Facts, state: &StateFacts, out: &mut Vec<Finding>) {
    let check = Check::StateFiles;
    let path = state.path.display();
    if let Some(process) = facts.host.process.as_ref().filter(|process| process.uid != 0)
        && process.uid != state.uid
    {
        out.push(
            Finding::bad(check, "the state directory belongs to another user")
                .because(format!(
                    "{path} belongs to {}, and leafd runs as {}.",
                    state.uid, process.uid
                ))
                .remedy(format!("chown -R {}: {path}", process.uid)),
        );
        return;
    }
    match &state.strangers {
        None => out.push(
            Finding::unknown(check, "cannot look into the state directory")
                .because(format!("This user may not list {path}."))
                .remedy("Run this as root or as leafd's user."),
        ),
        // Root may write everything.
        Some(strangers) if !strangers.is_empty() && state.uid != 0 => out.push(
            Finding::bad(check, "files of the state belong to another user")
                .because(format!(
                    "{} in {path}: somebody ran a command as the wrong user. leafd fails when it has to \
                     write them.",
                    some_of(strangers)
                ))
                .remedy(format!("chown -R {}: {path}", state.uid)),
        ),
        Some(_) if state.mode & 0o022 != 0 => out.push(
            Finding::warn(check, "others may write to the state directory")
                .because(format!("{path} has mode {:04o}.", state.mode & 0o7777))
                .remedy(format!("chmod 0700 {path}")),
        ),
        Some(_) => out.push(Finding::ok(check, format!("the state is in {path}"))),
    }
}

fn disk(state: &StateFacts, out: &mut Vec<Finding>) {
    let check = Check::Disk;
    let DiskFacts { free_bytes, total_bytes, free_inodes, total_inodes, read_only } = state.disk;
    let path = state.path.display();
    let free = format!("{} MiB of {} MiB are free.", free_bytes >> 20, total_bytes >> 20);
    let remedy = "Free some space, or give leafd a disk of its own.";
    let fails = "leafd cannot record what it issues, and stops issuing.";
    out.push(if read_only {
        Finding::bad(check, "the disk of the state directory is read-only")
            .because(format!("{path} is on {}. {fails}", state.mount.point.display()))
            .remedy("See `dmesg` for errors of the disk; then mount it read-write.")
    } else if free_bytes < FULL_BYTES {
        Finding::bad(check, "the disk of the state directory is full")
            .because(format!("{free} {fails}"))
            .remedy(remedy)
    } else if total_inodes > 0 && free_inodes < FEW_INODES {
        Finding::warn(check, "the disk of the state directory is nearly out of inodes")
            .because(format!("{free_inodes} of {total_inodes} are free."))
            .remedy("Delete files, or give leafd a disk of its own.")
    } else if free_bytes < NEARLY_FULL_BYTES && free_bytes < total_bytes / 20 {
        Finding::warn(check, "the disk of the state directory is nearly full")
            .because(free)
            .remedy(remedy)
    } else {
        Finding::ok(check, "the disk has room").because(free)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use crate::doctor::checks::sample::{config, healthy, of, running, state};
    use crate::doctor::facts::ProcessFacts;

    #[test]
    fn state_that_ends_is_as_bad_as_what_is_lost_with_it() {
        for storage in [StorageKind::Memory, StorageKind::Overlay, StorageKind::EmptyDir] {
            let mut facts = healthy();
            state(&mut facts).storage = storage;
            // A fixed worker ID and a shared store.
            assert_eq!(of(&facts, Check::StateLasts).level, Level::Warn);
            running(&mut facts).snowflake.registry = "zookeeper".to_owned();
            assert_eq!(of(&facts, Check::StateLasts).level, Level::Note);
            facts.configuration = config("[worker]\ngive-back = true");
            assert_eq!(of(&facts, Check::StateLasts).level, Level::Ok);
            running(&mut facts).segments.store = "sqlite /x/leafd.db".to_owned();
            let found = of(&facts, Check::StateLasts);
            assert_eq!(found.level, Level::Bad);
            assert!(found.detail.contains("begin at 1"), "{}", found.detail);
        }
        let mut facts = healthy();
        state(&mut facts).storage = StorageKind::Network;
        assert_eq!(of(&facts, Check::StateLasts).level, Level::Note);
    }

    #[test]
    fn volumes_that_can_be_rolled_back_are_named() {
        for (storage, level) in [
            (StorageKind::Btrfs, Level::Warn),
            (StorageKind::Zfs, Level::Warn),
            (StorageKind::Lvm, Level::Note),
            (StorageKind::Disk, Level::Ok),
        ] {
            let mut facts = healthy();
            state(&mut facts).storage = storage;
            assert_eq!(of(&facts, Check::Snapshots).level, level, "{storage:?}");
            assert_eq!(of(&facts, Check::StateLasts).level, Level::Ok);
        }
    }

    #[test]
    fn state_that_leafd_cannot_write_is_bad() {
        let mut facts = healthy();
        state(&mut facts).strangers = Some(vec!["worker.properties".to_owned()]);
        let found = of(&facts, Check::StateFiles);
        assert_eq!(found.level, Level::Bad);
        assert!(found.remedy.contains("chown -R 998:"), "{}", found.remedy);
        state(&mut facts).uid = 0;
        facts.host.process = None;
        assert_eq!(of(&facts, Check::StateFiles).level, Level::Ok);
        state(&mut facts).mode = 0o40_777;
        assert_eq!(of(&facts, Check::StateFiles).level, Level::Warn);
        state(&mut facts).strangers = None;
        assert_eq!(of(&facts, Check::StateFiles).level, Level::Unknown);
        let process = |uid| ProcessFacts { uid, most_files: None, open_files: None };
        facts.host.process = Some(process(998));
        assert!(of(&facts, Check::StateFiles).detail.contains("runs as 998"));
    }

    #[test]
    fn a_state_directory_out_of_sight_is_unknown() {
        let mut facts = healthy();
        for seen in [Seen::Not("Permission denied".to_owned()), Seen::Nothing] {
            facts.state = seen;
            assert_eq!(of(&facts, Check::StateFiles).level, Level::Unknown);
        }
    }

    #[test]
    fn a_full_disk_is_bad_and_a_nearly_full_one_a_warning() {
        let gib = 1 << 30;
        for (free_bytes, total_bytes, level) in [
            (FULL_BYTES - 1, gib, Level::Bad),
            (FULL_BYTES, gib, Level::Warn),
            (gib / 20 + 1, gib, Level::Ok),
            (gib, 100 * gib, Level::Ok),
        ] {
            let mut facts = healthy();
            state(&mut facts).disk.free_bytes = free_bytes;
            state(&mut facts).disk.total_bytes = total_bytes;
            assert_eq!(of(&facts, Check::Disk).level, level, "{free_bytes}");
        }
        let mut facts = healthy();
        state(&mut facts).disk.free_inodes = 999;
        assert_eq!(of(&facts, Check::Disk).level, Level::Warn);
        state(&mut facts).disk.total_inodes = 0;
        assert_eq!(of(&facts, Check::Disk).level, Level::Ok);
        state(&mut facts).disk.read_only = true;
        assert_eq!(of(&facts, Check::Disk).level, Level::Bad);
    }
}
