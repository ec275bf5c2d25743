//! The audit: who changed or tried to change a tag or a worker ID, over which transport, and what
//! became of it. With real other users: leafd learns them from the kernel. Worker IDs are released in
//! `worker_reclaim.rs`.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use leaf_client::wire::{Call, Reply};
use leafd_tests::PATIENCE;
use leafd_tests::daemon::{Ended, Home};
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::raw::{Raw, frame, segment};
use serde_json::{Value, json};

/// A user ID that no list of users has a name for, and a group of another number.
const UNKNOWN: u32 = 61_234;
const GROUP: u32 = 61_235;

/// Lines of the audit in a log in JSON, without the time.
fn audit(ended: &Ended) -> Vec<Value> {
    let lines = ended.log().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_audit = lines.filter(|line| line["target"] == "audit").map(|mut line| {
        line.as_object_mut().unwrap().remove("timestamp");
        line
    });
    of_audit.collect()
}

fn done(reply: Reply) {
    assert!(matches!(reply, Reply::Tags(_)), "{reply:?}");
}

fn refused(reply: Reply) -> String {
    match reply {
        Reply::Error(error) => error.message,
        other => panic!("{other:?} is not a refusal"),
    }
}

fn create(tag: &str) -> Call<'_> {
    Call::TagCreate { tag, step: 5, first: 7, description: "" }
}

#[test]
fn the_audit_says_who_changed_what_and_whom_a_rule_refused_even_at_level_error() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let rules = format!("[{{ name = 'shop', users = [{UNKNOWN}] }}]");
    let home = Home::new(folder.path())
        .with("SOCKET_MODE", "0666")
        .with("ACCESS_RULES", &rules)
        .with("LOG_LEVEL", "error")
        .with("LOG_FORMAT", "json");
    let daemon = home.start();
    let mut root = Raw::greeted(&home.socket());
    done(root.ask(2, create("orders")));
    done(root.ask(3, Call::TagSetStep { tag: "orders", step: 9 }));
    refused(root.ask(4, create("orders")));
    let mut theirs = OtherUser::new(UNKNOWN, GROUP).let_in(&home.socket());
    // Their first use makes a tag.
    assert!(matches!(theirs.raw.ask(2, segment("theirs", 1)), Reply::Ids { .. }));
    let why = refused(theirs.raw.ask(3, Call::TagDelete { tag: "orders" }));
    refused(theirs.raw.ask(4, Call::WorkerRelease { worker: 3, owner: "somebody" }));
    refused(theirs.raw.ask(5, Call::TagList { after: "", limit: 10 }));
    refused(theirs.raw.ask(6, Call::TagsUsed { after: "", limit: 10 }));
    done(root.ask(5, Call::TagShow { tag: "orders" }));
    done(root.ask(6, Call::TagDelete { tag: "orders" }));
    let ended = daemon.stop();
    let by = |uid: u32, gid: u32, mut line: Value| {
        let fields = json!({ "level": "INFO", "target": "audit", "transport": "unix" });
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        line["uid"] = uid.into();
        line["gid"] = gid.into();
        line
    };
    assert!(why.contains("rule \"shop\""), "{why}");
    let list = refusal_of(&ended, "tag-list");
    let release = refusal_of(&ended, "worker-release");
    let expected = [
        by(
            0,
            0,
            json!({ "message": "tag-create done", "action": "tag-create", "tag": "orders",
            "new": "step 5, first 7", "outcome": "done" }),
        ),
        by(
            0,
            0,
            json!({ "message": "tag-set-step done", "action": "tag-set-step", "tag": "orders",
            "old": "step 5", "new": "step 9", "outcome": "done" }),
        ),
        by(
            0,
            0,
            json!({ "message": "tag-create refused", "action": "tag-create", "tag": "orders",
            "new": "step 5, first 7", "outcome": "203 TagExists",
            "reason": "tag \"orders\": the store has this tag already" }),
        ),
        by(
            UNKNOWN,
            GROUP,
            json!({ "message": "tag-create-on-use done",
            "action": "tag-create-on-use", "tag": "theirs", "new": "step 1000, first 1",
            "outcome": "done" }),
        ),
        by(
            UNKNOWN,
            GROUP,
            json!({ "message": "tag-delete refused", "action": "tag-delete",
            "tag": "orders", "outcome": "206 Forbidden", "reason": why }),
        ),
        by(
            UNKNOWN,
            GROUP,
            json!({ "message": "worker-release refused",
            "action": "worker-release", "worker": 3, "new": "free, if somebody has it",
            "outcome": "206 Forbidden", "reason": release }),
        ),
        by(
            UNKNOWN,
            GROUP,
            json!({ "message": "tag-list refused", "action": "tag-list",
            "outcome": "206 Forbidden", "reason": list }),
        ),
        by(
            0,
            0,
            json!({ "message": "tag-delete done", "action": "tag-delete", "tag": "orders",
            "new": "gone, a new one begins at 7", "outcome": "done" }),
        ),
    ];
    let found = audit(&ended);
    assert_eq!(found.len(), expected.len(), "{ended}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{ended}");
    }
}

/// Why an action was refused, which names the caller.
fn refusal_of(ended: &Ended, action: &str) -> String {
    let line = audit(ended).into_iter().find(|line| line["action"] == action);
    let reason = line.and_then(|line| Some(line["reason"].as_str()?.to_owned()));
    let reason = reason.unwrap_or_else(|| panic!("no {action}: {ended}"));
    assert!(reason.contains("uid 61234 may not administer"), "{reason}");
    reason
}

#[test]
fn in_text_a_line_of_the_audit_begins_with_its_target_and_log_level_can_silence_it_by_name() {
    for (level, times) in [("warn", 1), ("off", 1), ("info,audit=off", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("LOG_LEVEL", level);
        let daemon = home.start();
        daemon.client().tag_create("orders", 5, 1, "").unwrap();
        let ended = daemon.stop();
        let line = " INFO audit: tag-create done uid=0 gid=0 transport=\"unix\" \
                    action=\"tag-create\" tag=\"orders\" new=\"step 5, first 1\" outcome=\"done\"";
        assert_eq!(ended.count(line), times, "{level}: {ended}");
    }
}

#[test]
fn a_user_that_storms_with_refused_calls_does_not_fill_the_log_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let home = Home::new(folder.path()).with("SOCKET_MODE", "0666");
    let daemon = home.start();
    let mut theirs = OtherUser::new(UNKNOWN, GROUP).let_in(&home.socket());
    let bytes: Vec<_> =
        (2..2_002).flat_map(|id| frame(id, Call::TagDelete { tag: "orders" })).collect();
    let sender = std::thread::spawn({
        let mut stream = theirs.raw.stream().try_clone().unwrap();
        move || std::io::Write::write_all(&mut stream, &bytes)
    });
    for _ in 0..2_000 {
        assert!(theirs.raw.receive().is_some());
    }
    sender.join().unwrap().unwrap();
    let ended = daemon.stop();
    // Twenty at once, and twenty more for each half minute that this takes.
    let lines = ended.count("audit: tag-delete refused");
    assert!((20..200).contains(&lines), "{lines}: {ended}");
}

#[test]
fn a_change_whose_caller_leaves_before_the_answer_is_in_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let daemon = home.start();
    daemon.client().tag_create("orders", 5, 1, "").unwrap();
    // Another process holds the database, so that the change waits in it.
    let mut holder = std::process::Command::new("/usr/bin/python3")
        .args(["-c", HOLD])
        .arg(home.database())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut said).unwrap();
    assert_eq!(said, "holds\n");
    home.log().wait_while(
        |line| line.contains("audit: tag-set-step unknown"),
        || {
            let mut raw = Raw::greeted(&home.socket());
            raw.send(&frame(2, Call::TagSetStep { tag: "orders", step: 9 }));
            // It has its turn within moments; a call that leaves before has tried nothing.
            std::thread::sleep(Duration::from_millis(500));
        },
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    daemon.stop();
}

/// Holds a write transaction on the embedded database until its input ends.
const HOLD: &str = r"
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('PRAGMA busy_timeout = 60000')
database.execute('BEGIN IMMEDIATE')
print('holds', flush=True)
sys.stdin.read()
";

/// Puts the folder `$0` in the place of the journal's, in a mount namespace of its own.
const WITH_JOURNAL: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && \
                            mount --bind \"$0\" /run/systemd/journal && exec \"$@\"";

#[test]
fn in_the_journal_every_value_of_the_audit_is_a_field() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("journal");
    std::fs::create_dir(&place).unwrap();
    let journal = UnixDatagram::bind(place.join("socket")).unwrap();
    journal.set_read_timeout(Some(PATIENCE)).unwrap();
    let place = place.to_str().unwrap();
    let home = Home::new(folder.path())
        .with("LOG_FORMAT", "journald")
        .with("LOG_LEVEL", "error")
        .through(&["unshare", "--mount", "sh", "-c", WITH_JOURNAL, place]);
    let daemon = home.start();
    daemon.client().tag_create("orders", 5, 1, "").unwrap();
    let mut bytes = [0; 8192];
    let length = journal.recv(&mut bytes).unwrap();
    let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
    for field in [
        "MESSAGE=audit: tag-create done uid=0 gid=0 transport=\"unix\"",
        "PRIORITY=6",
        "TARGET=audit",
        "LEAFD_UID=0",
        "LEAFD_GID=0",
        "LEAFD_TRANSPORT=unix",
        "LEAFD_ACTION=tag-create",
        "LEAFD_TAG=orders",
        "LEAFD_NEW=step 5, first 1",
        "LEAFD_OUTCOME=done",
    ] {
        assert!(text.lines().any(|line| line.starts_with(field)), "{field} is not in:\n{text}");
    }
    daemon.stop();
}
