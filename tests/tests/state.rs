//! A state directory that is damaged, lost, copied, restored or another host's. leafd does not trust it,
//! does not take it for a new one, and tells the operator what to do.

use std::path::Path;
use std::time::Duration;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, SnowflakeState};
use leafd_tests::caller::ask_until_answered;
use leafd_tests::daemon::Home;
use leafd_tests::{Daemon, UniqueIds};

fn use_it(daemon: &Daemon, seen: &UniqueIds) {
    // After `leafd adopt`, snowflakes begin some seconds later.
    let options = daemon.home().options().timeout(Duration::from_secs(30));
    let mut client = leaf_client::blocking::Client::new(options);
    seen.add("orders", &client.next_many("orders", 10).unwrap());
    seen.add("snowflake", &client.snowflake_many(10).unwrap());
}

/// Settings for a leafd that has been used and stopped.
fn used(folder: &Path, seen: &UniqueIds) -> Home {
    let home = Home::new(folder);
    let daemon = home.start();
    use_it(&daemon, seen);
    daemon.stop();
    home
}

/// Runs leafd to its end. Returns its exit code and output.
fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let (code, out, errors) = home.run("leafd", arguments);
    (code, out + &errors)
}

/// Number of files in the state directory whose names begin with `name`.
fn set_aside(home: &Home, name: &str) -> usize {
    let entries = std::fs::read_dir(home.state()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|entry| entry.starts_with(name)).count()
}

#[test]
fn a_damaged_journal_is_set_aside_and_segments_go_on_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let seen = UniqueIds::default();
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
    let seen = UniqueIds::default();
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
    let seen = UniqueIds::default();
    let home = used(folder.path(), &seen);
    let before = std::fs::read(home.state().join("segments.journal")).unwrap();
    let elsewhere = home.clone().with("STATE_MACHINE_ID", "another");
    let (code, text) = run(&elsewhere, &[]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("leafd adopt") && text.contains("another"), "{text}");
    assert_eq!(std::fs::read(home.state().join("segments.journal")).unwrap(), before);
    // The original host goes on.
    let daemon = home.start();
    use_it(&daemon, &seen);
    daemon.stop();
    // The operator confirms that the disk was moved, and no ID comes twice.
    let (code, text) = run(&elsewhere, &["adopt"]);
    assert_eq!(code, Some(0), "{text}");
    let daemon = elsewhere.start();
    use_it(&daemon, &seen);
    daemon.stop();
    let (code, _) = run(&home, &[]);
    assert_eq!(code, Some(78), "now it belongs to the other machine");
}

#[test]
fn a_lost_database_is_not_silently_replaced_and_adopting_starts_above_what_was_issued() {
    let folder = tempfile::tempdir().unwrap();
    let seen = UniqueIds::default();
    let home = used(folder.path(), &seen);
    for file in ["leafd.db", "leafd.db-wal", "leafd.db-shm"] {
        let _ = std::fs::remove_file(home.state().join(file));
    }
    let daemon = home.start();
    // Leased IDs are served, but a new tag cannot be leased.
    seen.add("orders", &daemon.client().next_many("orders", 10).unwrap());
    let limit = Duration::from_secs(1);
    let error = ask_until_answered(&home, limit, |client| client.next("new")).unwrap_err();
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
fn a_restored_database_without_its_journal_is_adopted_only_with_the_highest_issued_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    let takes = |count| {
        let daemon = home.start();
        seen.add("orders", &daemon.client().next_many("orders", count).unwrap());
        daemon.stop();
    };
    takes(10);
    let (database, backup) = (home.state().join("leafd.db"), folder.path().join("backup"));
    std::fs::copy(&database, &backup).unwrap();
    takes(20_000);
    std::fs::remove_file(home.state().join("segments.journal")).unwrap();
    std::fs::rename(&backup, &database).unwrap();
    // As it is, and without its identity, like a database of an older version.
    for change in ["", "DROP TABLE leafd_identity"] {
        home.sql(change);
        for arguments in [&[][..], &["adopt"]] {
            let (code, text) = run(&home, arguments);
            assert_eq!(code, Some(78), "{change} {arguments:?}: {text}");
            assert!(text.contains("leafd adopt --above N"), "{text}");
        }
    }
    let highest = seen.highest("orders").unwrap().to_string();
    let (code, text) = run(&home, &["adopt", "--above", &highest]);
    assert_eq!(code, Some(0), "{text}");
    takes(20_000);
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
    let seen = UniqueIds::default();
    let home = used(folder.path(), &seen);
    let daemon = home.with("SNOWFLAKE_LAYOUT", "baidu@1767225600000").start();
    let Err(Error::Refused(error)) = daemon.client().snowflake() else { panic!("served") };
    assert_eq!(error.code(), ErrorCode::WorkerUnavailable);
    assert!(error.message.contains("41/10/12") && error.message.contains("28/22/13"), "{error}");
}

#[test]
fn a_missing_directory_or_one_of_another_user_is_not_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    // With the embedded store, `--lost` is not enough, since it does not say what was issued.
    for arguments in [&["adopt"][..], &["adopt", "--lost"]] {
        let (code, text) = run(&home, arguments);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains("cannot be taken over"), "{text}");
        assert!(text.contains("LEAFD_STATE_DIR") && text.contains("--above N"), "{text}");
        assert!(!home.state().exists(), "it was made");
    }
    home.start().stop();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(home.state(), Some(61_234), None).unwrap();
        let (code, text) = run(&home, &["adopt"]);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains("belongs to uid 61234"), "{text}");
    }
}

/// Runs a command that succeeds.
fn shell(words: &[&str]) {
    let status = std::process::Command::new(words[0]).args(&words[1..]).status();
    assert!(status.is_ok_and(|status| status.success()), "{words:?}");
}

/// Ways to restore the folder STATE from the folder BACKUP.
const WAYS: [&str; 6] = [
    "rm -rf STATE && cp -a BACKUP STATE",
    "rm -rf STATE && mkdir STATE && tar -C BACKUP -cf - . | tar -C STATE -xf -",
    "rm -f STATE/* && cp -a BACKUP/. STATE/",
    "cp -a BACKUP/. STATE/",
    "rsync -a --delete BACKUP/ STATE/",
    "rsync -a --delete --inplace BACKUP/ STATE/",
];

/// Restores a backup that was copied while leafd ran, so that only the copying itself can reveal it.
fn a_restored_directory_repeats_nothing(way: &str, is_killed: bool) {
    let folder = tempfile::tempdir().unwrap();
    let seen = UniqueIds::default();
    // A long timeout for a busy disk.
    let home = Home::new(folder.path()).with("STORE_TIMEOUT", "60s");
    let (state, backup) = (home.state(), folder.path().join("backup"));
    let (from, to) = (state.to_str().unwrap(), backup.to_str().unwrap());
    let daemon = home.start();
    let more = |daemon: &Daemon| {
        seen.add("orders", &daemon.client().next_many("orders", 100).unwrap());
    };
    more(&daemon);
    // `cp` fails if leafd replaces a file before `cp` gets to it.
    shell(&["sh", "-c", &format!("until cp -a {from} {to}; do rm -rf {to}; done")]);
    for _ in 0..5 {
        more(&daemon);
    }
    if is_killed {
        daemon.kill();
    } else {
        daemon.stop();
    }
    shell(&["sh", "-c", &way.replace("STATE", from).replace("BACKUP", to)]);
    for arguments in [&[][..], &["adopt"]] {
        let (code, text) = run(&home, arguments);
        assert_eq!(code, Some(78), "{way}: {text}");
        assert!(text.contains("restored") && text.contains("--above N"), "{way}: {text}");
    }
    let highest = seen.highest("orders").unwrap();
    let (code, text) = run(&home, &["adopt", "--above", &highest.to_string()]);
    assert_eq!(code, Some(0), "{way}: {text}");
    let daemon = home.start();
    more(&daemon);
    // A tag that was created after the backup, and is unknown now.
    assert!(daemon.client().next("made later").unwrap() > highest, "{way}");
    daemon.stop();
    home.start().stop();
}

#[test]
fn a_restored_state_directory_repeats_nothing_with_the_embedded_store_however_it_was_restored() {
    for is_killed in [false, true] {
        std::thread::scope(|scope| {
            for way in WAYS {
                scope.spawn(move || a_restored_directory_repeats_nothing(way, is_killed));
            }
        });
    }
}

#[test]
fn a_lost_state_directory_is_adopted_with_the_highest_issued_ids_and_no_tag_begins_at_1() {
    for lost in ["rm -rf STATE", "rm -f STATE/*", "rm -f STATE/*.properties STATE/*.journal"] {
        let folder = tempfile::tempdir().unwrap();
        let home = used(folder.path(), &UniqueIds::default());
        shell(&["sh", "-c", &lost.replace("STATE", home.state().to_str().unwrap())]);
        let (code, text) = run(&home, &["adopt"]);
        assert_eq!(code, Some(78), "{lost}: {text}");
        assert!(text.contains("--above N"), "{lost}: {text}");
        let (code, text) = run(&home, &["adopt", "--above", "5000", "--above", "invoices=70000"]);
        assert_eq!(code, Some(0), "{lost}: {text}");
        let daemon = home.start();
        assert_eq!(daemon.client().next("orders").unwrap(), 5001, "{lost}");
        assert_eq!(daemon.client().next("new").unwrap(), 5001, "{lost}");
        assert_eq!(daemon.client().next("invoices").unwrap(), 70_001, "{lost}");
        let made = daemon.client().tag_create("by hand", 10, 1, "").unwrap();
        assert!(made.max_id >= 5001, "{lost}: {made:?}");
        daemon.kill();
        // leafd remembers it even if the journal is lost later.
        std::fs::remove_file(home.state().join("segments.journal")).unwrap();
        let daemon = home.start();
        assert!(daemon.client().next("newer").unwrap() >= 5001, "{lost}");
        daemon.stop();
    }
}

/// The commands in the manual's section on a lost state directory.
fn commands_of_the_manual() -> String {
    let manual = leafd_tests::binaries::workspace().join("docs/operations/state.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let section = manual.split("### The state directory is lost").nth(1).unwrap();
    section.split("```").nth(1).unwrap().trim_start_matches("sh").to_owned()
}

#[test]
fn the_commands_of_the_manual_for_a_lost_state_directory_work_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let home = used(folder.path(), &UniqueIds::default());
    let state = home.state();
    std::fs::remove_dir_all(&state).unwrap();
    // Replacements for commands that need the package's users or systemd.
    let shims = folder.path().join("shims");
    std::fs::create_dir(&shims).unwrap();
    for (name, script) in [
        ("systemctl", "exit 0"),
        ("install", "shift 7; exec mkdir \"$@\""),
        ("runuser", "shift 3; exec \"$@\""),
    ] {
        let path = shims.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        shell(&["chmod", "+x", path.to_str().unwrap()]);
    }
    let commands = commands_of_the_manual().replace("/var/lib/leafd", state.to_str().unwrap());
    let program = home.command("leafd").get_program().to_owned();
    let programs = Path::new(&program).parent().unwrap().display().to_string();
    let path = format!("{}:{programs}:{}", shims.display(), std::env::var("PATH").unwrap());
    let mut sh = std::process::Command::new("sh");
    let output = sh.args(["-euc", &commands]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
    let daemon = home.start();
    assert_eq!(daemon.client().next("orders").unwrap(), 5_000_001);
    assert_eq!(daemon.client().next("invoices").unwrap(), 80_000_001);
    daemon.stop();
}
