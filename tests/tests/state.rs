//! The state directory is damaged, copied, or somebody else's: nothing is trusted that should not
//! be, nothing is taken for new that is not, and the operator is told what to do.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, SnowflakeState};
use leafd_tests::daemon::Home;
use leafd_tests::{Daemon, Seen};

fn use_it(daemon: &Daemon, seen: &Seen) {
    // After `leafd adopt`, snowflakes begin some seconds later.
    let options = daemon.home().options().timeout(Duration::from_secs(30));
    let mut client = leaf_client::blocking::Client::new(options);
    seen.add("orders", &client.next_many("orders", 10).unwrap());
    seen.add("snowflake", &client.snowflake_many(10).unwrap());
}

fn used(folder: &Path, seen: &Seen) -> Home {
    let home = Home::new(folder);
    let daemon = home.start();
    use_it(&daemon, seen);
    daemon.stop();
    home
}

fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = home.command("leafd").args(arguments).output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.code(), text)
}

fn set_aside(home: &Home, name: &str) -> usize {
    let entries = std::fs::read_dir(home.state()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|entry| entry.starts_with(name)).count()
}

#[test]
fn a_damaged_journal_is_set_aside_and_segments_go_on_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let home = used(folder.path(), &seen);
    let path = home.state().join("segments.journal");
    let mut content = std::fs::read(&path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 4;
    std::fs::write(&path, content).unwrap();
    let daemon = home.start();
    use_it(&daemon, &seen);
    assert_eq!(set_aside(&home, "segments.journal.damaged-"), 1);
    home.log().wait_for("segments.journal is damaged");
    daemon.stop();
}

#[test]
fn a_damaged_worker_file_refuses_snowflakes_until_adopted_and_segments_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let home = used(folder.path(), &seen);
    std::fs::write(home.state().join("worker.properties"), "workerID=0\n").unwrap();
    for _ in 0..2 {
        let daemon = home.start();
        let mut client = daemon.client();
        seen.add("orders", &client.next_many("orders", 10).unwrap());
        let Err(Error::Refused(error)) = client.snowflake() else { panic!("it trusts the file") };
        assert_eq!(error.code(), ErrorCode::WorkerUnavailable);
        assert!(error.message.contains("leafd adopt"), "{error}");
        let state = client.status().unwrap().snowflake.state;
        assert!(matches!(state, SnowflakeState::Refused { .. }), "{state:?}");
        daemon.stop();
    }
    let (code, text) = run(&home, &["adopt"]);
    assert_eq!(code, Some(0), "{text}");
    let daemon = home.start();
    use_it(&daemon, &seen);
    daemon.stop();
}

#[test]
fn a_directory_copied_to_another_machine_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let home = used(folder.path(), &seen);
    let before = std::fs::read(home.state().join("segments.journal")).unwrap();
    let elsewhere = home.clone().with("STATE_MACHINE_ID", "another");
    let (code, text) = run(&elsewhere, &[]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("leafd adopt") && text.contains("another"), "{text}");
    assert_eq!(std::fs::read(home.state().join("segments.journal")).unwrap(), before);
    // The original goes on.
    let daemon = home.start();
    use_it(&daemon, &seen);
    daemon.stop();
    // The disk was moved: the operator says so, and nothing comes twice.
    let (code, text) = run(&elsewhere, &["adopt"]);
    assert_eq!(code, Some(0), "{text}");
    let daemon = elsewhere.start();
    use_it(&daemon, &seen);
    daemon.stop();
    let (code, _) = run(&home, &[]);
    assert_eq!(code, Some(78), "now it is the other machine's");
}

#[test]
fn a_lost_database_is_not_replaced_in_silence_and_adopting_starts_above_what_was_issued() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let home = used(folder.path(), &seen);
    for file in ["leafd.db", "leafd.db-wal", "leafd.db-shm"] {
        let _ = std::fs::remove_file(home.state().join(file));
    }
    let daemon = home.start();
    // What was leased is served, and a tag that was never leased has nowhere to come from.
    seen.add("orders", &daemon.client().next_many("orders", 10).unwrap());
    let options = home.options().timeout(Duration::from_secs(1));
    let outcome = leaf_client::blocking::Client::new(options).next("new");
    let Err(Error::Refused(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code(), ErrorCode::StoreUnavailable);
    daemon.stop();
    let (code, text) = run(&home, &["adopt"]);
    assert_eq!(code, Some(0), "{text}");
    let daemon = home.start();
    for _ in 0..300 {
        seen.add("orders", &daemon.client().next_many("orders", 10).unwrap());
    }
    daemon.client().next("new").unwrap();
    daemon.stop();
}

#[test]
fn adopting_is_refused_while_leafd_runs() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let (code, text) = run(&home, &["adopt"]);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(&daemon.pid().to_string()), "{text}");
    daemon.stop();
}

#[test]
fn another_layout_on_the_same_state_is_refused_with_both_layouts_named() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let home = used(folder.path(), &seen);
    let daemon = home.with("SNOWFLAKE_LAYOUT", "baidu@1767225600000").start();
    let Err(Error::Refused(error)) = daemon.client().snowflake() else { panic!("served") };
    assert_eq!(error.code(), ErrorCode::WorkerUnavailable);
    assert!(error.message.contains("41/10/12") && error.message.contains("28/22/13"), "{error}");
}

#[test]
fn a_directory_that_is_not_there_or_another_users_is_not_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (code, text) = run(&home, &["adopt"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("cannot be taken over") && text.contains("LEAFD_STATE_DIR"), "{text}");
    assert!(!home.state().exists(), "it was made");
    home.start().stop();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(home.state(), Some(61_234), None).unwrap();
        let (code, text) = run(&home, &["adopt"]);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains("belongs to uid 61234"), "{text}");
    }
}
