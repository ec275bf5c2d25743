use std::collections::HashMap;

use super::lock::LOCK_FILE;
use super::*;
use crate::ids::{BizTag, Range};
use crate::state::adopt::{Above, Adopted, LeasedFrom};
use crate::state::durable::{replace, replace_marked};
use crate::state::journal::{JournalHeader, SegmentJournal, TagRecord};
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
    let state = StateDir::lock(dir.path()).unwrap();
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
    StateDir::lock(path).unwrap().adopt(&here(), not_before_ms, from, &above(words))
}

const SET_ASIDE: ForeignPolicy = ForeignPolicy::SetAside { fixed_worker: None };

fn open(dir: &tempfile::TempDir, policy: ForeignPolicy) -> Result<StateContents, StateError> {
    StateDir::lock(dir.path()).unwrap().open(&here(), policy)
}

fn aside(dir: &tempfile::TempDir, why: &str) -> usize {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(why))
        .count()
}

#[test]
fn a_second_process_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = StateDir::lock(dir.path()).unwrap();
    let error = StateDir::lock(dir.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    drop(first);
    StateDir::lock(dir.path()).unwrap();
}

#[test]
fn a_directory_stays_locked_for_as_long_as_its_writer_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::lock(dir.path()).unwrap();
    let place = state.place();
    drop(state);
    assert!(matches!(StateDir::lock(dir.path()), Err(StateError::Locked { .. })));
    drop(place);
    StateDir::lock(dir.path()).unwrap();
}

#[test]
fn what_was_written_is_there_again() {
    let dir = used();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert_eq!(contents.worker, WorkerPast::Known(WORKER));
    assert!(contents.warnings.is_empty());
}

#[test]
fn a_crash_at_any_point_of_the_making_leaves_a_directory_that_is_still_new() {
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
    // The doubt about what was left stays, and so do the ends.
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
        let state = StateDir::lock(&moved).unwrap();
        let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
        assert_eq!(contents.worker, WorkerPast::Known(record));
        std::fs::rename(moved, dir.path()).unwrap();
    }
}

/// Puts a copy of the directory back, in one of the ways in which backups are restored.
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
fn a_restored_directory_gives_up_its_ranges_where_the_store_is_shared_and_keeps_highest_ends() {
    for way in WAYS {
        let dir = used();
        let backup = copy_of(dir.path());
        // Another life, in which more is issued.
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
        // Once, and on disk.
        let contents = open(&dir, SET_ASIDE).unwrap();
        assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 0);
        assert_eq!(contents.warnings.len(), 1, "the worker: {:?}", contents.warnings);
    }
}

#[test]
fn a_restored_directory_with_the_embedded_store_is_refused_until_somebody_says_what_was_issued() {
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
            assert_eq!((contents.base, contents.journal_is_whole), (5001, true));
            assert!(contents.warnings.is_empty(), "{:?}", contents.warnings);
            let WorkerPast::Known(worker) = contents.worker else { panic!() };
            assert_eq!(worker.ceiling_ms, WORKER.ceiling_ms);
        }
    }
}

#[test]
fn one_file_of_a_directory_that_was_put_back_is_noticed() {
    for file in [journal::FILE, owner::FILE, worker_file::FILE] {
        let dir = used();
        // By a copy of the same life, so that the generation says nothing.
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
fn a_file_system_that_numbers_its_files_anew_is_told_by_the_error_and_allowed_by_a_setting() {
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
    let state = StateDir::lock(dir.path()).unwrap().with_inodes(Inodes::Unstable);
    let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 1900);
    drop((contents, state));
    // A copy is made at another time, whatever its number.
    if own.has_time() {
        let copy = copy_of(dir.path());
        let state = StateDir::lock(copy.path()).unwrap().with_inodes(Inodes::Unstable);
        let error = state.open(&here(), ForeignPolicy::Refuse).unwrap_err();
        assert!(matches!(error, StateError::Copied { .. }), "{error}");
        assert!(!error.to_string().contains("unstable-inodes"), "{error}");
    }
}

/// The directory as version 0.1.0 has left it: marks in none of its files, but that of the directory
/// itself.
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
fn state_of_version_0_1_0_is_taken_up_without_a_question_and_costs_a_gap_once() {
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
        // A copy of the whole directory is noticed as before.
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
fn a_directory_that_was_lost_is_adopted_with_a_word_on_what_was_issued_and_no_tag_starts_below() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("lost");
    let gone = LeasedFrom::Embedded { is_there: false };
    let error = adopt(&path, 0, gone, &[]).unwrap_err().to_string();
    assert!(error.contains("--above N"), "{error}");
    let adopted = adopt(&path, 70, gone, &["5000", "b=9000", "c=3"]).unwrap();
    assert_eq!((adopted.base, adopted.floors[&tag("b")]), (5001, 9001));
    for _start in 0..2 {
        let state = StateDir::lock(&path).unwrap();
        let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
        assert_eq!((contents.base, contents.journal_is_whole), (5001, true));
        assert_eq!(contents.journal.tags()[&tag("b")].floor, 9001);
        assert_eq!(contents.journal.tags()[&tag("c")].floor, 4);
        let WorkerPast::Known(worker) = contents.worker else { panic!() };
        assert_eq!(worker.ceiling_ms, 70);
    }
    // What a journal that is lost later does not take along.
    std::fs::remove_file(path.join(journal::FILE)).unwrap();
    let state = StateDir::lock(&path).unwrap();
    assert_eq!(state.open(&here(), ForeignPolicy::Refuse).unwrap().base, 5001);
    drop(state);
    // And a second word does not lower.
    assert_eq!(adopt(&path, 0, gone, &["10"]).unwrap().base, 5001);
}

#[test]
fn a_lost_directory_of_a_shared_store_is_adopted_and_does_not_claim_to_know_all() {
    let dir = tempfile::tempdir().unwrap();
    adopt(dir.path(), 70, LeasedFrom::Shared, &[]).unwrap();
    let contents = open(&dir, SET_ASIDE).unwrap();
    assert_eq!((contents.base, contents.journal_is_whole), (0, false));
    assert!(matches!(contents.worker, WorkerPast::Known(worker) if worker.ceiling_ms == 70));
}

#[test]
fn where_only_tags_are_named_all_others_start_above_the_highest_of_them() {
    let dir = used();
    adopt(dir.path(), 0, EMBEDDED, &["a=100", "b=7000"]).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    // What the journal has seen is never lowered.
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert_eq!((contents.journal.tags()[&tag("b")].floor, contents.base), (7001, 7001));
}

#[test]
fn what_is_no_number_or_leaves_no_room_for_a_range_is_not_taken_for_an_operators_word() {
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
fn a_copy_of_one_life_that_is_written_over_its_files_is_noticed() {
    let dir = used();
    let state = StateDir::lock(dir.path()).unwrap();
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
    // Only the journal was restored, and is adopted: what it knows is enough.
    let dir = used();
    let journal = dir.path().join(journal::FILE);
    let copy = std::fs::read(&journal).unwrap();
    replace(&journal, &copy).unwrap();
    let owner = dir.path().join(owner::FILE);
    std::fs::hard_link(&owner, dir.path().join("kept")).unwrap();
    adopt(dir.path(), 0, EMBEDDED, &["5000"]).unwrap();
    std::fs::rename(dir.path().join("kept"), owner).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!((contents.base, contents.journal.tags()[&tag("a")].floor), (5001, 5001));
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
fn ranges_of_another_database_are_given_up_and_highest_ends_are_kept() {
    let dir = used();
    let moved = StateOwner { store: "another".into(), ..here() };
    let state = StateDir::lock(dir.path()).unwrap();
    let contents = state.open(&moved, ForeignPolicy::Refuse).unwrap();
    let record = &contents.journal.tags()[&tag("a")];
    assert_eq!((record.floor, record.left.total()), (2001, 0));
    let told = contents.warnings.concat();
    assert!(told.contains("another") && told.contains("1900 IDs"), "{told}");
    assert_eq!(contents.worker, WorkerPast::Known(WORKER));
    drop((contents, state));
    // On disk as well: going back does not bring them back.
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].left.total(), 0);
}

#[test]
fn a_directory_whose_owner_is_missing_or_damaged_is_nobodys_and_not_new() {
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
            set_aside(&dir.path().join(file), "foreign").unwrap();
        }
        let opened = StateDir::lock(dir.path()).unwrap().open(&here(), ForeignPolicy::Refuse);
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
    // The copies were made, and the new journal, and then the power went.
    for file in [journal::FILE, worker_file::FILE, owner::FILE] {
        keep_aside(&dir.path().join(file), "adopted").unwrap();
    }
    let floors = HashMap::from([(tag("a"), 2001)]);
    let header = JournalHeader { generation: 1, base: 0 };
    SegmentJournal::create(&dir.path().join(journal::FILE), header, floors_only(&floors)).unwrap();
    assert!(matches!(open(&dir, ForeignPolicy::Refuse), Err(StateError::Foreign { .. })));
    adopt(dir.path(), 0, EMBEDDED, &[]).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
    assert!(
        matches!(contents.worker, WorkerPast::Known(worker) if worker.ceiling_ms == WORKER.ceiling_ms)
    );
}

#[test]
fn adopting_keeps_the_highest_ends_and_the_later_time_and_gives_up_what_was_left() {
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

#[test]
fn a_lock_file_that_somebody_removed_lets_no_second_process_in() {
    let dir = tempfile::tempdir().unwrap();
    let _first = StateDir::lock(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
    assert!(matches!(StateDir::lock(dir.path()), Err(StateError::Locked { .. })));
}

#[test]
fn a_directory_that_was_replaced_is_not_written_to() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let place = StateDir::lock(&path).unwrap().place();
    assert!(place.check().is_ok());
    std::fs::rename(&path, parent.path().join("moved")).unwrap();
    assert!(place.check().is_err());
    std::fs::create_dir(&path).unwrap();
    assert!(place.check().unwrap_err().to_string().contains("was replaced"));
}

#[test]
fn an_old_copy_of_a_file_that_was_put_back_is_not_trusted() {
    for file in [journal::FILE, worker_file::FILE] {
        let dir = used();
        make_old(dir.path());
        // As version 0.1.0 wrote it: only the generation tells.
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
    // The journal, and then the worker file, are of the next generation; the owner is not yet.
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
fn a_lost_journal_is_not_the_journal_of_a_tag_less_directory() {
    let dir = used();
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    let contents = open(&dir, ForeignPolicy::Refuse).unwrap();
    assert!(contents.journal.tags().is_empty() && !contents.journal_is_whole);
    drop(contents);
    // And not at the next start either.
    assert!(!open(&dir, ForeignPolicy::Refuse).unwrap().journal_is_whole);
    // And not where the database is lost as well.
    let dir = used();
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    let error = adopt(dir.path(), 0, LeasedFrom::Embedded { is_there: false }, &[]).unwrap_err();
    assert!(error.to_string().contains("--above"), "{error}");
}
