use super::*;
use crate::segment::range::Range;
use crate::state::journal::TagRecord;
use crate::state::worker_file::SharedClaim;

fn here() -> Owner {
    Owner { machine: "m1".into(), identity: String::new(), store: "s".into() }
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
    replace(&path, WORKER.write(generation).as_bytes()).unwrap();
    dir
}

fn mark() -> Mark {
    Mark::read("7@8").unwrap()
}

const SET_ASIDE: ForeignPolicy = ForeignPolicy::SetAside { fixed_worker: None };

fn open(dir: &tempfile::TempDir, policy: ForeignPolicy) -> Result<Contents, StateError> {
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
    let full = WorkerRecord { ceiling_ms: u64::MAX, ..WORKER }.write(1);
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

#[test]
fn a_claim_in_a_registry_is_not_copied_with_its_directory_and_all_else_is() {
    let shared = SharedClaim { registry: "zookeeper /snowflake/leaf".into(), ..Default::default() };
    for (shared, lost) in [(Some(shared), true), (None, false)] {
        let dir = used();
        let record = WorkerRecord { shared, ..WORKER };
        let file = dir.path().join(worker_file::FILE);
        replace(&file, record.write(1).as_bytes()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for file in [journal::FILE, worker_file::FILE, owner::FILE] {
            std::fs::copy(dir.path().join(file), copy.path().join(file)).unwrap();
        }
        for _start in 0..2 {
            let contents = open(&copy, ForeignPolicy::Refuse).unwrap();
            assert_eq!(contents.journal.tags()[&tag("a")].floor, 2001);
            assert_eq!(matches!(contents.worker, WorkerPast::Lost { .. }), lost);
        }
        assert_eq!(aside(&copy, "damaged"), usize::from(lost));
        let moved = dir.path().with_extension("moved");
        std::fs::rename(dir.path(), &moved).unwrap();
        let state = StateDir::lock(&moved).unwrap();
        let contents = state.open(&here(), ForeignPolicy::Refuse).unwrap();
        assert_eq!(contents.worker, WorkerPast::Known(record));
        std::fs::rename(moved, dir.path()).unwrap();
    }
}

#[test]
fn another_hosts_directory_is_refused_or_set_aside_and_left_as_it_is_when_refused() {
    let other =
        [Owner { machine: "m2".into(), ..here() }, Owner { identity: "pod-1".into(), ..here() }];
    for owner in other {
        let dir = used();
        let path = dir.path().join(owner::FILE);
        std::fs::write(&path, owner.write(1, true, mark())).unwrap();
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
        let owner = Owner { machine: "m2".into(), ..here() };
        std::fs::write(dir.path().join(owner::FILE), owner.write(1, true, mark())).unwrap();
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
    let moved = Owner { store: "another".into(), ..here() };
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
    let foreign = Owner { machine: "m2".into(), ..here() };
    std::fs::write(dir.path().join(owner::FILE), foreign.write(1, true, mark())).unwrap();
    // The copies were made, and the new journal, and then the power went.
    for file in [journal::FILE, worker_file::FILE, owner::FILE] {
        keep_aside(&dir.path().join(file), "adopted").unwrap();
    }
    let floors = HashMap::from([(tag("a"), 2001)]);
    Journal::create(&dir.path().join(journal::FILE), 1, floors_only(&floors)).unwrap();
    assert!(matches!(open(&dir, ForeignPolicy::Refuse), Err(StateError::Foreign { .. })));
    StateDir::lock(dir.path()).unwrap().adopt(&here(), 0).unwrap();
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
        Owner { machine: "m2".into(), ..here() }.write(1, true, mark()),
    )
    .unwrap();
    let later = WORKER.ceiling_ms + 1;
    let adopted = StateDir::lock(dir.path()).unwrap().adopt(&here(), later).unwrap();
    let done = adopted.done;
    assert!(adopted.ends_are_known);
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
    std::fs::remove_file(dir.path().join(LOCK)).unwrap();
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
        let copy = std::fs::read(dir.path().join(file)).unwrap();
        drop(open(&dir, ForeignPolicy::Refuse).unwrap());
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
        let before: HashMap<_, _> = [journal::FILE, worker_file::FILE, owner::FILE]
            .map(|file| (file, std::fs::read(dir.path().join(file)).unwrap()))
            .into();
        drop(open(&dir, ForeignPolicy::Refuse).unwrap());
        for (file, content) in &before {
            if !written.contains(file) {
                std::fs::write(dir.path().join(file), content).unwrap();
            }
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
    let dir = used();
    std::fs::remove_file(dir.path().join(journal::FILE)).unwrap();
    let adopted = StateDir::lock(dir.path()).unwrap().adopt(&here(), 0).unwrap();
    assert!(!adopted.ends_are_known);
}
