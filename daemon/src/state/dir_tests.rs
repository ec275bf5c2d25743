use std::collections::HashMap;

use super::lock::LOCK_FILE;
use super::*;
use crate::ids::{BizTag, Range};
use crate::state::adopt::{Above, Adopted, LeasedFrom};
use crate::state::durable::{replace, replace_marked};
use crate::state::journal::{JournalHeader, RetiredDays, RetiredSeries, SegmentJournal, TagRecord};
use crate::state::properties::Properties;
use crate::state::worker_file::SharedClaim;

fn here() -> StateOwner {
    StateOwner { machine: "m1".into(), identity: String::new(), store: "s".into() }
}

fn tag(name: &str) -> BizTag {
    BizTag::new(name).unwrap()
}

const WORKER: WorkerRecord = WorkerRecord {
    worker: Some(3),
    identity: String::new(),
    layout: String::new(),
    ceiling_ms: 1_700_000_000_000,
    shared: None,
};

/// A directory in which something was issued.
fn used() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    let mut contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
    let left = [Range::new(101, 2001).unwrap()].into_iter().collect();
    let record = TagRecord { floor: 2001, used_s: 1, left };
    contents.journal.append(vec![(tag("a"), record)]).unwrap();
    let generation = contents.generation;
    let path = state.place().worker_file();
    replace_marked(&path, |file| WORKER.write(generation, file)).unwrap();
    dir
}

fn mark() -> FileMark {
    FileMark::read("7@8").unwrap()
}

/// What the owner file of another host says.
fn owned_by(owner: &StateOwner) -> String {
    let file = OwnerFile {
        owner: owner.clone(),
        generation: 1,
        ends_are_known: true,
        base: 0,
        directory: None,
        file: None,
    };
    file.write()
}

const EMBEDDED: LeasedFrom = LeasedFrom::Embedded { is_there: true };

fn above(words: &[&str]) -> Above {
    let mut above = Above::default();
    for word in words {
        above.add(word).unwrap();
    }
    above
}

fn adopt(
    path: &Path,
    not_before_ms: u64,
    from: LeasedFrom,
    words: &[&str],
) -> Result<Adopted, StateError> {
    StateDir::lock(path, &Environment::system()).unwrap().adopt(
        &here(),
        not_before_ms,
        from,
        &above(words),
    )
}

const SET_ASIDE: ForeignPolicy = ForeignPolicy::SetAside { fixed_worker: None };

fn open(dir: &tempfile::TempDir, policy: ForeignPolicy) -> Result<StateContents, StateError> {
    StateDir::lock(dir.path(), &Environment::system()).unwrap().open(&here(), policy)
}

fn aside(dir: &tempfile::TempDir, why: &str) -> usize {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(why))
        .count()
}

#[test]
fn a_second_process_learns_which_process_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    let error = StateDir::lock(dir.path(), &Environment::system()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    drop(first);
    StateDir::lock(dir.path(), &Environment::system()).unwrap();
}

#[test]
fn a_directory_stays_locked_for_as_long_as_its_writer_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    let place = state.place();
    drop(state);
    assert!(matches!(
        StateDir::lock(dir.path(), &Environment::system()),
        Err(StateError::Locked { .. })
    ));
    drop(place);
    StateDir::lock(dir.path(), &Environment::system()).unwrap();
}

#[test]
fn a_reopened_directory_has_what_was_written() {
    let dir = used();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert_eq!(contents.worker, WorkerPast::Known(WORKER));
    assert!(contents.warnings.is_empty());
}

#[test]
fn a_crash_while_a_directory_is_made_leaves_it_new() {
    for files in [&[][..], &[journal::FILE], &[journal::FILE, worker_file::FILE]] {
        for torn in ["", "half", "# a comment\nworkerID="] {
            let made = tempfile::tempdir().unwrap();
            open(&made, ForeignPolicy::Refuse).unwrap();
            let dir = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::copy(made.path().join(file), dir.path().join(file)).unwrap();
            }
            for file in [journal::FILE, worker_file::FILE, owner::FILE] {
                // The next file was being written under its temporary name.
                std::fs::write(dir.path().join(format!("{file}.new")), torn).unwrap();
            }
            let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
            assert_eq!(contents.worker, WorkerPast::Known(WorkerRecord::fresh()));
            assert!(contents.warnings.is_empty());
        }
    }
}

#[test]
fn a_crash_while_a_file_is_replaced_leaves_the_old_one() {
    let dir = used();
    let full = WorkerRecord { ceiling_ms: u64::MAX, ..WORKER }.write(1, mark());
    for cut in 0..=full.len() {
        std::fs::write(dir.path().join("worker.properties.new"), &full[..cut]).unwrap();
        let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        assert_eq!(contents.worker, WorkerPast::Known(WORKER));
    }
}

#[test]
fn a_damaged_journal_is_set_aside_and_the_highest_ends_are_kept() {
    let dir = used();
    let path = dir.path().join(journal::FILE);
    let mut content = std::fs::read(&path).unwrap();
    content.extend(b"00000000 b 5 1 1-5\n");
    std::fs::write(&path, content).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(aside(&dir, "journal.damaged"), 1);
    assert!(!contents.journal_is_whole);
    assert!(contents.warnings[0].contains("line 3"), "{:?}", contents.warnings);
    drop(contents);
    // The ranges stay dropped, and the ends stay known.
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    let record = &contents.journal.tags()[&tag("a")];
    assert_eq!((record.floor, record.left.total()), (2001, 0));
}

#[test]
fn a_damaged_or_missing_worker_file_is_lost_and_stays_lost_over_restarts() {
    let damage: [fn(&Path); 3] = [
        |path| std::fs::write(path, "workerID=3\n").unwrap(),
        |path| std::fs::write(path, "").unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for damage in damage {
        let dir = used();
        damage(&dir.path().join(worker_file::FILE));
        for _ in 0..3 {
            let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
            let WorkerPast::Lost { reason } = contents.worker else { panic!("trusted") };
            assert!(reason.contains("worker.properties"));
            assert_eq!(contents.journal.tags().len(), 1, "segments are not concerned");
        }
    }
}

fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in [journal::FILE, worker_file::FILE, owner::FILE] {
        std::fs::copy(dir.join(file), copy.path().join(file)).unwrap();
    }
    copy
}

#[test]
fn a_worker_id_is_not_copied_with_its_directory_and_moves_with_it() {
    let shared = SharedClaim { registry: "zookeeper /snowflake/leaf".into(), ..Default::default() };
    for shared in [Some(shared), None] {
        let dir = used();
        let record = WorkerRecord { shared, ..WORKER };
        let file = dir.path().join(worker_file::FILE);
        replace_marked(&file, |mark| record.write(1, mark)).unwrap();
        let copy = copy_of(dir.path());
        for _start in 0..2 {
            let contents = open(&copy, SET_ASIDE).unwrap();
            assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
            assert!(matches!(contents.worker, WorkerPast::Lost { .. }));
        }
        assert_eq!(aside(&copy, "damaged"), 1);
        let moved = dir.path().with_extension("moved");
        std::fs::rename(dir.path(), &moved).unwrap();
        let state = StateDir::lock(&moved, &Environment::system()).unwrap();
        let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
        assert_eq!(contents.worker, WorkerPast::Known(record));
        std::fs::rename(moved, dir.path()).unwrap();
    }
}

/// Puts a copy of the directory back, as backup tools do in one of several ways.
fn restore(dir: &Path, copy: &Path, way: &str) {
    for file in [journal::FILE, worker_file::FILE, owner::FILE] {
        let (from, to) = (copy.join(file), dir.join(file));
        match way {
            // As `cp` and `rsync --inplace` do.
            "over the files" => drop(std::fs::write(to, std::fs::read(from).unwrap())),
            // As `rsync` does.
            "beside them, and renamed" => {
                let new = dir.join("restored");
                std::fs::copy(from, &new).unwrap();
                std::fs::rename(new, to).unwrap();
            }
            // As `tar` and `cp -a` do, into another directory or one that was emptied.
            _ => {
                std::fs::remove_file(&to).unwrap();
                std::fs::copy(from, to).unwrap();
            }
        }
    }
}

const WAYS: [&str; 3] = ["over the files", "beside them, and renamed", "as new files"];

#[test]
fn with_a_shared_store_a_restored_directory_drops_its_ranges_and_keeps_the_highest_ends() {
    for way in WAYS {
        let dir = used();
        let backup = copy_of(dir.path());
        // Another start, in which more is issued.
        drop(open(&dir, SET_ASIDE).unwrap());
        restore(dir.path(), backup.path(), way);
        let contents = open(&dir, SET_ASIDE).unwrap();
        let record = &contents.journal.tags()[&tag("a")];
        assert_eq!((record.floor, record.left.total()), (2001, 0), "{way}");
        assert!(!contents.journal_is_whole, "{way}");
        assert!(matches!(contents.worker, WorkerPast::Lost { .. }), "{way}");
        let told = contents.warnings.concat();
        assert!(told.contains("restored or copied"), "{way}: {told}");
        drop(contents);
        // The ranges are dropped once, and on disk.
        let contents = open(&dir, SET_ASIDE).unwrap();
        assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 0);
        assert_eq!(contents.warnings.len(), 1, "the worker: {:?}", contents.warnings);
    }
}

#[test]
fn with_the_embedded_store_a_restored_directory_is_refused_until_an_operator_says_what_was_issued()
{
    for way in WAYS {
        let dir = used();
        let backup = copy_of(dir.path());
        drop(open(&dir, ForeignPolicy::Refuse).unwrap());
        restore(dir.path(), backup.path(), way);
        let journal = std::fs::read(dir.path().join(journal::FILE)).unwrap();
        for _start in 0..2 {
            let error = open(&dir, ForeignPolicy::Refuse).unwrap_err().to_string();
            assert!(error.contains("restored") && error.contains("--above 2000"), "{way}: {error}");
        }
        let error = adopt(dir.path(), 0, EMBEDDED, &[]).unwrap_err().to_string();
        assert!(error.contains("`leafd adopt --above 2000`"), "{way}: {error}");
        assert_eq!(std::fs::read(dir.path().join(journal::FILE)).unwrap(), journal);
        adopt(dir.path(), 7, EMBEDDED, &["5000"]).unwrap();
        for _start in 0..2 {
            let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
            let record = &contents.journal.tags()[&tag("a")];
            assert_eq!((record.floor, record.left.total()), (5001, 0));
            assert_eq!((contents.journal.base(), contents.journal_is_whole), (5001, true));
            assert!(contents.warnings.is_empty(), "{:?}", contents.warnings);
            let WorkerPast::Known(worker) = contents.worker else { panic!() };
            assert_eq!(worker.ceiling_ms, WORKER.ceiling_ms);
        }
    }
}

#[test]
fn a_single_restored_file_is_noticed() {
    for file in [journal::FILE, owner::FILE, worker_file::FILE] {
        let dir = used();
        // The copy is from the same start, so the generation does not show it.
        let path = dir.path().join(file);
        let copy = std::fs::read(&path).unwrap();
        replace(&path, &copy).unwrap();
        let opened = open(&dir, ForeignPolicy::Refuse);
        if file == worker_file::FILE {
            let contents = opened.unwrap();
            assert!(matches!(contents.worker, WorkerPast::Lost { .. }));
            assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 1900);
        } else {
            assert!(matches!(opened, Err(StateError::Copied { .. })), "{file}");
        }
    }
}

#[test]
fn the_error_names_the_setting_for_a_file_system_that_changes_inode_numbers() {
    let dir = used();
    let path = dir.path().join(owner::FILE);
    let mut owner = OwnerFile::read(&std::fs::read(&path).unwrap()).unwrap();
    let own = FileMark::of(&std::fs::metadata(dir.path()).unwrap());
    let other_inode = own.write().replacen(|digit: char| digit.is_ascii_digit(), "99", 1);
    owner.directory = FileMark::read(&other_inode);
    let write = |file| {
        owner.file = Some(file);
        owner.write()
    };
    replace_marked(&path, write).unwrap();
    let error = open(&dir, ForeignPolicy::Refuse).unwrap_err().to_string();
    assert!(error.contains("state.unstable-inodes"), "{error}");
    let state =
        StateDir::lock(dir.path(), &Environment::system()).unwrap().with_inodes(Inodes::Unstable);
    let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 1900);
    drop((contents, state));
    // A copy has another birth time, whatever its inode number.
    if own.has_time() {
        let copy = copy_of(dir.path());
        let state = StateDir::lock(copy.path(), &Environment::system())
            .unwrap()
            .with_inodes(Inodes::Unstable);
        let error = state.open(&here(), ForeignPolicy::Refuse).unwrap_err();
        assert!(matches!(error, StateError::Copied { .. }), "{error}");
        assert!(!error.to_string().contains("unstable-inodes"), "{error}");
    }
}

/// Makes the directory as version 0.1.0 left it: no file has a mark, only the directory's is recorded.
fn make_old(dir: &Path) {
    for file in [worker_file::FILE, owner::FILE] {
        let path = dir.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let read = Properties::read(text.as_bytes()).unwrap();
        let mut old = Properties::default();
        for line in text.lines() {
            let Some((key, _)) = line.split_once('=') else { continue };
            if !["file", "base", "checksum"].contains(&key) {
                old.set(key, read.get(key).unwrap());
            }
        }
        std::fs::write(path, old.write("as it was")).unwrap();
    }
    let path = dir.join(journal::FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let old = header.split(' ').skip(1).take(3).collect::<Vec<_>>().join(" ");
    let sum = crc32fast::hash(old.as_bytes());
    std::fs::write(path, format!("{sum:08x} {old}\n{rest}")).unwrap();
}

#[test]
fn state_of_version_0_1_0_is_accepted_and_costs_one_gap() {
    for policy in [ForeignPolicy::Refuse, SET_ASIDE] {
        let dir = used();
        make_old(dir.path());
        let contents = open(&dir, policy).unwrap();
        assert!(contents.warnings.is_empty(), "{:?}", contents.warnings);
        assert!(contents.notes.concat().contains("1900 IDs"), "{:?}", contents.notes);
        let record = &contents.journal.tags()[&tag("a")];
        assert_eq!((record.floor, record.left.total()), (2001, 0));
        assert!(contents.journal_is_whole);
        assert_eq!(contents.worker, WorkerPast::Known(WORKER));
        drop(contents);
        assert!(open(&dir, policy).unwrap().notes.is_empty());
        // A copy of the whole directory is still noticed.
        let dir = used();
        make_old(dir.path());
        let copy = copy_of(dir.path());
        let opened = open(&copy, policy);
        assert_eq!(opened.is_err(), policy == ForeignPolicy::Refuse);
        if let Ok(contents) = opened {
            assert!(matches!(contents.worker, WorkerPast::Lost { .. }));
        }
    }
}

#[test]
fn after_a_lost_directory_is_adopted_no_tag_starts_below_what_the_operator_said_was_issued() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("lost");
    let gone = LeasedFrom::Embedded { is_there: false };
    let error = adopt(&path, 0, gone, &[]).unwrap_err().to_string();
    assert!(error.contains("--above N"), "{error}");
    let adopted = adopt(&path, 70, gone, &["5000", "b=9000", "c=3"]).unwrap();
    assert_eq!((adopted.base, adopted.floors[&tag("b")]), (5001, 9001));
    for _start in 0..2 {
        let state = StateDir::lock(&path, &Environment::system()).unwrap();
        let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
        assert_eq!((contents.journal.base(), contents.journal_is_whole), (5001, true));
        assert_eq!(contents.journal.tags()[&tag("b")].floor, 9001);
        assert_eq!(contents.journal.tags()[&tag("c")].floor, 4);
        let WorkerPast::Known(worker) = contents.worker else { panic!() };
        assert_eq!(worker.ceiling_ms, 70);
    }
    // The base survives a journal that is lost later.
    std::fs::remove_file(path.join(journal::FILE)).unwrap();
    let state = StateDir::lock(&path, &Environment::system()).unwrap();
    assert_eq!(state.open(&here(), ForeignPolicy::Refuse).unwrap().journal.base(), 5001);
    drop(state);
    // A second word of the operator does not lower it.
    assert_eq!(adopt(&path, 0, gone, &["10"]).unwrap().base, 5001);
}

#[test]
fn an_adopted_directory_of_a_shared_store_does_not_claim_to_know_every_end() {
    let dir = tempfile::tempdir().unwrap();
    adopt(dir.path(), 70, LeasedFrom::Shared, &[]).unwrap();
    let contents = open(&dir, SET_ASIDE).unwrap();
    assert_eq!((contents.journal.base(), contents.journal_is_whole), (0, false));
    assert!(matches!(contents.worker, WorkerPast::Known(worker) if worker.ceiling_ms == 70));
}

#[test]
fn if_only_tags_are_named_all_others_start_above_the_highest_number() {
    let dir = used();
    adopt(dir.path(), 0, EMBEDDED, &["a=100", "b=7000"]).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    // An end that the journal has seen is never lowered.
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert_eq!((contents.journal.tags()[&tag("b")].floor, contents.journal.base()), (7001, 7001));
}

#[test]
fn adopt_refuses_text_and_numbers_that_leave_no_room_for_a_range() {
    let most = (1_u64 << 63) - 1 - 1_000_000_000 - 1;
    for good in ["0", "5", "a=5", "a=b=5", &most.to_string()] {
        assert_eq!(Above::default().add(good), Ok(()), "{good}");
    }
    for bad in ["", "a", "a=", "=5", "-1", "1.5", "a=-1", &(most + 1).to_string()] {
        assert!(Above::default().add(bad).is_err(), "{bad:?}");
    }
    assert!(!Above::default().is_given() && above(&["0"]).is_given());
}

#[test]
fn a_copy_from_the_same_start_that_is_written_over_the_files_is_noticed() {
    let dir = used();
    let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    let mut journal = state.open(&here(), ForeignPolicy::Refuse).unwrap().journal;
    let files = [journal::FILE, journal::MARK_FILE, worker_file::FILE, owner::FILE]
        .map(|file| dir.path().join(file));
    let copy = files.clone().map(|file| std::fs::read(file).unwrap());
    let record = journal.tags()[&tag("a")].clone();
    journal.append(vec![(tag("a"), TagRecord { floor: 9001, ..record })]).unwrap();
    drop((journal, state));
    for (file, content) in files.iter().zip(copy) {
        // The file itself stays, with its inode.
        std::fs::write(file, content).unwrap();
    }
    let error = open(&dir, ForeignPolicy::Refuse).unwrap_err().to_string();
    assert!(error.contains(journal::MARK_FILE), "{error}");
    assert_eq!(open(&dir, SET_ASIDE).unwrap().journal.tags()[&tag("a")].left.total(), 0);
}

#[test]
fn a_mark_that_a_power_cut_has_emptied_or_cut_off_means_nothing() {
    for content in ["", "1", "12@34"] {
        let dir = used();
        std::fs::write(dir.path().join(journal::MARK_FILE), content).unwrap();
        open(&dir, ForeignPolicy::Refuse).unwrap();
        std::fs::remove_file(dir.path().join(journal::MARK_FILE)).unwrap();
        open(&dir, ForeignPolicy::Refuse).unwrap();
    }
}

#[test]
fn a_crash_while_a_restored_directory_is_adopted_leaves_it_refused_or_adopted() {
    let dir = used();
    let backup = copy_of(dir.path());
    restore(dir.path(), backup.path(), "as new files");
    let files = [journal::FILE, worker_file::FILE, owner::FILE];
    let before = files.map(|file| std::fs::read(dir.path().join(file)).unwrap());
    adopt(dir.path(), 0, EMBEDDED, &["5000"]).unwrap();
    // The owner file is replaced last.
    std::fs::write(dir.path().join(owner::FILE), &before[2]).unwrap();
    assert!(open(&dir, ForeignPolicy::Refuse).is_err());
    // Only the journal was restored and is adopted. What it knows is enough.
    let dir = used();
    let journal = dir.path().join(journal::FILE);
    let copy = std::fs::read(&journal).unwrap();
    replace(&journal, &copy).unwrap();
    let owner = dir.path().join(owner::FILE);
    std::fs::hard_link(&owner, dir.path().join("kept")).unwrap();
    adopt(dir.path(), 0, EMBEDDED, &["5000"]).unwrap();
    std::fs::rename(dir.path().join("kept"), owner).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!((contents.journal.base(), contents.journal.tags()[&tag("a")].floor), (5001, 5001));
}

#[test]
fn another_hosts_directory_is_refused_or_set_aside_and_left_as_it_is_when_refused() {
    let other = [
        StateOwner { machine: "m2".into(), ..here() },
        StateOwner { identity: "pod-1".into(), ..here() },
    ];
    for owner in other {
        let dir = used();
        let path = dir.path().join(owner::FILE);
        std::fs::write(&path, owned_by(&owner)).unwrap();
        let error = open(&dir, ForeignPolicy::Refuse).unwrap_err().to_string();
        assert!(error.contains("leafd adopt"), "{error}");
        assert_eq!(aside(&dir, "foreign"), 0);
        let contents = open(&dir, SET_ASIDE).unwrap();
        assert_eq!(aside(&dir, "foreign"), 3);
        assert!(contents.journal.tags().is_empty());
        assert_eq!(contents.worker, WorkerPast::Known(WorkerRecord::fresh()));
        assert!(!contents.warnings.is_empty());
        assert!(open(&dir, ForeignPolicy::Refuse).unwrap().warnings.is_empty());
    }
}

#[test]
fn another_hosts_directory_gives_no_snowflake_ids_with_the_same_fixed_worker_id() {
    for (configured, lost) in [(3, true), (4, false)] {
        let dir = used();
        let owner = StateOwner { machine: "m2".into(), ..here() };
        std::fs::write(dir.path().join(owner::FILE), owned_by(&owner)).unwrap();
        let policy = ForeignPolicy::SetAside { fixed_worker: Some(configured) };
        for _start in 0..2 {
            let worker = open(&dir, policy).unwrap().worker;
            assert_eq!(matches!(worker, WorkerPast::Lost { .. }), lost, "{configured}: {worker:?}");
            if let WorkerPast::Lost { reason } = worker {
                assert!(reason.contains("a worker.id of its own"), "{reason}");
            }
        }
    }
}

#[test]
fn ranges_of_another_database_are_dropped_and_the_highest_ends_are_kept() {
    let dir = used();
    let moved = StateOwner { store: "another".into(), ..here() };
    let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    let contents = state.open(&moved, ForeignPolicy::Refuse).unwrap();
    let record = &contents.journal.tags()[&tag("a")];
    assert_eq!((record.floor, record.left.total()), (2001, 0));
    let told = contents.warnings.concat();
    assert!(told.contains("another") && told.contains("1900 IDs"), "{told}");
    assert_eq!(contents.worker, WorkerPast::Known(WORKER));
    drop((contents, state));
    // The ranges are dropped on disk too: going back to the first database does not bring them back.
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 0);
}

#[test]
fn a_directory_whose_owner_file_is_missing_or_damaged_is_foreign_and_not_new() {
    for content in [None, Some("machine=m1\n")] {
        let dir = used();
        let path = dir.path().join(owner::FILE);
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        assert!(matches!(open(&dir, ForeignPolicy::Refuse), Err(StateError::Foreign { .. })));
    }
}

#[test]
fn a_crash_while_foreign_state_is_set_aside_does_not_make_the_directory_new() {
    let files = [journal::FILE, worker_file::FILE, owner::FILE];
    for moved in 1..=files.len() {
        let dir = used();
        for file in &files[..moved] {
            set_aside(&dir.path().join(file), "foreign", 0).unwrap();
        }
        let opened = StateDir::lock(dir.path(), &Environment::system())
            .unwrap()
            .open(&here(), ForeignPolicy::Refuse);
        match opened {
            Err(StateError::Foreign { .. }) => {}
            Ok(contents) => {
                assert!(matches!(contents.worker, WorkerPast::Lost { .. }) || moved == 1)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_crash_while_adopting_keeps_the_highest_ends() {
    let dir = used();
    let foreign = StateOwner { machine: "m2".into(), ..here() };
    std::fs::write(dir.path().join(owner::FILE), owned_by(&foreign)).unwrap();
    // The power failed after the copies and the new journal were made.
    for file in [journal::FILE, worker_file::FILE, owner::FILE] {
        keep_aside(&dir.path().join(file), "adopted", 0).unwrap();
    }
    let floors = HashMap::from([(tag("a"), 2001)]);
    let (header, none) = (JournalHeader { generation: 1, base: 0 }, RetiredDays::default());
    SegmentJournal::create(&dir.path().join(journal::FILE), header, floors_only(&floors), none)
        .unwrap();
    assert!(matches!(open(&dir, ForeignPolicy::Refuse), Err(StateError::Foreign { .. })));
    adopt(dir.path(), 0, EMBEDDED, &[]).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert!(
        matches!(contents.worker, WorkerPast::Known(worker) if worker.ceiling_ms == WORKER.ceiling_ms)
    );
}

#[test]
fn adopting_keeps_the_highest_ends_and_the_later_time_and_drops_the_ranges() {
    let dir = used();
    std::fs::write(
        dir.path().join(owner::FILE),
        owned_by(&StateOwner { machine: "m2".into(), ..here() }),
    )
    .unwrap();
    let later = WORKER.ceiling_ms + 1;
    let adopted = adopt(dir.path(), later, EMBEDDED, &[]).unwrap();
    let done = adopted.done;
    assert!(done.iter().any(|line| line.contains(&later.to_string())), "{done:?}");
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    let record = &contents.journal.tags()[&tag("a")];
    assert_eq!((record.floor, record.left.total()), (2001, 0));
    let WorkerPast::Known(worker) = contents.worker else { panic!() };
    assert_eq!((worker.worker, worker.ceiling_ms), (None, later));
}

/// A directory whose only tags were of past days and have left the journal at 900.
fn retired() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    let left = RetiredSeries { through: "20200101".parse().unwrap(), floor: 900 };
    contents.journal.retire(&tag("a-20200101"), left);
    contents.journal.finish(Vec::new()).unwrap();
    dir
}

#[test]
fn what_is_left_of_past_days_survives_starts_damage_and_old_copies_and_is_no_new_directory() {
    let dir = retired();
    let file = dir.path().join(journal::FILE);
    let old = std::fs::read(&file).unwrap();
    for _ in 0..3 {
        let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        assert!(contents.journal_is_whole && !contents.journal.knows_nothing());
        assert_eq!(contents.journal.retired().floor_of("a-20191231"), 900);
    }
    // Another line is damaged, and then an old copy is written over the file.
    for content in [[&std::fs::read(&file).unwrap()[..], b"0 b 5 1 -\n"].concat(), old] {
        std::fs::write(&file, content).unwrap();
        let contents = open(&dir, ForeignPolicy::SetAside { fixed_worker: None }).unwrap();
        assert!(!contents.journal_is_whole);
        assert_eq!(contents.journal.retired().floor_of("a-20191231"), 900);
        assert_eq!(contents.journal.tags()[&tag("a-20200101")].floor, 900, "the advice names it");
    }
    // Without its owner file, only the journal says that something was issued.
    let dir = retired();
    std::fs::remove_file(dir.path().join(owner::FILE)).unwrap();
    assert!(open(&dir, ForeignPolicy::Refuse).is_err());
}

#[test]
fn adopting_keeps_what_is_left_of_past_days_and_raises_it_to_the_operators_word() {
    for (words, named, other) in
        [(&[][..], 900, 900), (&["1000"][..], 1001, 1001), (&["a-20191231=50"][..], 900, 900)]
    {
        let dir = retired();
        let adopted = adopt(dir.path(), 0, EMBEDDED, words).unwrap();
        let known = |name: &str| {
            let floor = adopted.floors.get(&tag(name)).copied();
            floor.unwrap_or_else(|| adopted.base.max(adopted.retired.floor_of(name)))
        };
        assert_eq!((known("a-20191231"), known("a-20191230")), (named, other), "{words:?}");
        let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        assert_eq!(*contents.journal.retired(), adopted.retired);
    }
}

#[test]
fn no_second_process_starts_after_somebody_removed_the_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let _first = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    std::fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
    assert!(matches!(
        StateDir::lock(dir.path(), &Environment::system()),
        Err(StateError::Locked { .. })
    ));
}

#[test]
fn leafd_does_not_write_to_a_directory_that_replaced_its_own() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let place = StateDir::lock(&path, &Environment::system()).unwrap().place();
    assert!(place.check().is_ok());
    std::fs::rename(&path, parent.path().join("moved")).unwrap();
    assert!(place.check().is_err());
    std::fs::create_dir(&path).unwrap();
    assert!(place.check().unwrap_err().to_string().contains("was replaced"));
}

#[test]
fn an_old_copy_of_a_file_is_not_trusted() {
    for file in [journal::FILE, worker_file::FILE] {
        let dir = used();
        make_old(dir.path());
        // Version 0.1.0 wrote no marks, so only the generation shows it.
        let copy = std::fs::read(dir.path().join(file)).unwrap();
        let mut contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        let left = [Range::new(201, 2001).unwrap()].into_iter().collect();
        let record = TagRecord { floor: 2001, used_s: 1, left };
        contents.journal.append(vec![(tag("a"), record)]).unwrap();
        drop(contents);
        std::fs::write(dir.path().join(file), copy).unwrap();
        let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        let told = contents.warnings.iter().any(|warning| warning.contains("old copy"));
        assert!(told, "{:?}", contents.warnings);
        let lost = matches!(contents.worker, WorkerPast::Lost { .. });
        assert_eq!(lost, file == worker_file::FILE);
        let record = &contents.journal.tags()[&tag("a")];
        assert_eq!(record.floor, 2001);
        assert_eq!(record.left.total() == 0, file == journal::FILE);
        assert_eq!(contents.journal_is_whole, file != journal::FILE);
    }
}

#[test]
fn a_crash_between_the_files_of_a_start_leaves_them_usable() {
    // The journal, and then also the worker file, are of the next generation. The owner file is not yet.
    for written in [&[journal::FILE][..], &[journal::FILE, worker_file::FILE]] {
        let dir = used();
        let kept = |file| dir.path().join(format!("{file}.kept"));
        let files = [journal::FILE, worker_file::FILE, owner::FILE];
        for file in files {
            std::fs::hard_link(dir.path().join(file), kept(file)).unwrap();
        }
        drop(open(&dir, ForeignPolicy::Refuse).unwrap());
        for file in files.iter().filter(|file| !written.contains(file)) {
            std::fs::rename(kept(file), dir.path().join(file)).unwrap();
        }
        let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
        assert!(contents.warnings.is_empty(), "{:?}", contents.warnings);
        assert_eq!(contents.worker, WorkerPast::Known(WORKER));
        assert_eq!(contents.journal.tags()[&tag("a")].left.position(), Some(101));
    }
}

#[test]
fn a_directory_without_its_journal_does_not_count_as_one_without_tags() {
    let dir = used();
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert!(contents.journal.tags().is_empty() && !contents.journal_is_whole);
    drop(contents);
    // The next start does not count it as whole either.
    assert!(!open(&dir, ForeignPolicy::Refuse).unwrap().journal_is_whole);
    // Nor does adopting, if the database is lost too.
    let dir = used();
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    let error = adopt(dir.path(), 0, LeasedFrom::Embedded { is_there: false }, &[]).unwrap_err();
    assert!(error.to_string().contains("--above"), "{error}");
}

#[test]
fn what_was_seen_of_the_witness_table_stays_only_with_a_directory_that_knows_all_that_it_leased() {
    let seen = |dir: &tempfile::TempDir| {
        let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
        let opened = state.open(&here(), SET_ASIDE);
        opened.unwrap();
        state.witness().unwrap().is_some()
    };
    let file = |dir: &tempfile::TempDir| dir.path().join(lock::WITNESS_FILE);
    let write = |dir: &tempfile::TempDir| {
        let text = |file: FileMark| {
            let mut properties = Properties::default();
            properties.set("file", file.write());
            properties.write("test")
        };
        replace_marked(&file(dir), text).unwrap();
    };
    let dir = used();
    write(&dir);
    assert!(seen(&dir) && seen(&dir));
    // A copy of the file alone.
    std::fs::copy(file(&dir), dir.path().join("copy")).unwrap();
    std::fs::rename(dir.path().join("copy"), file(&dir)).unwrap();
    assert!(!seen(&dir));
    // A journal that was lost, even if the next start finds a whole one again.
    write(&dir);
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    assert!(!seen(&dir) && !seen(&dir));
    assert!(!file(&dir).exists());
    // Another host's directory, and one that is adopted.
    write(&dir);
    let other = StateOwner { machine: "m2".into(), ..here() };
    let state = StateDir::lock(dir.path(), &Environment::system()).unwrap();
    state.open(&other, SET_ASIDE).unwrap();
    assert!(!file(&dir).exists());
    drop(state);
    write(&dir);
    adopt(dir.path(), 0, LeasedFrom::Shared, &[]).unwrap();
    assert!(!file(&dir).exists());
}
