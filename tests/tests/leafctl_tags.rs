//! What leafctl does about tags that nobody meant to make, about quotas, and about a daemon that is
//! killed under a benchmark.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd_tests::binaries::program;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::other_user::open_to_all;
use leafd_tests::stores::{TestStore, wait_until};
use leafd_tests::{Terminal, on_every_sql_server, on_every_store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

on_every_store! {
    a_benchmark_deletes_the_tags_that_it_made_and_no_others,
}

on_every_sql_server! {
    where_tags_cannot_be_deleted_a_benchmark_says_which_remain,
}

const ORDINARY: u32 = 61_003;

/// A daemon that makes tags on first use.
fn start(store: &TestStore, folder: &Path) -> Daemon {
    let home = Home::new(folder).with_time_for_the_disk().with("SEGMENT_AUTO_CREATE", "true");
    if store.kind().is_none() {
        return home.start();
    }
    store.create_table();
    store.server().grant_deleting();
    home.with_store(store.server()).start()
}

fn tags(daemon: &Daemon) -> Vec<String> {
    let tags = daemon.client().tag_list("", 100).unwrap();
    tags.into_iter().map(|tag| tag.tag).collect()
}

/// Runs a short benchmark, and returns what it wrote to stdout and stderr.
fn bench(home: &Home, more: &[&str]) -> (String, String) {
    let mut arguments = vec!["bench", "--warm-up", "0s", "--duration", "200ms"];
    arguments.extend(["--timeout", "1m"]);
    arguments.extend(more);
    let (code, out, errors) = home.run("leafctl", &arguments);
    assert_eq!(code, Some(0), "{out}{errors}");
    (out, errors)
}

/// A command that runs leafctl as a user without rights, from a copy that this user can reach.
fn as_ordinary_user(home: &Home, folder: &Path) -> Command {
    let copy = folder.join("leafctl");
    if !copy.exists() {
        std::fs::copy(program("leafctl"), &copy).unwrap();
    }
    let mut command = Command::new(copy);
    command.env("LEAFD_SOCKET", home.socket()).stdin(Stdio::null());
    command.uid(ORDINARY).gid(ORDINARY);
    command
}

fn a_benchmark_deletes_the_tags_that_it_made_and_no_others(store: &TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(store, folder.path());
    let home = daemon.home();
    for tag in ["mine", "bench-07", "bench-x"] {
        daemon.client().tag_create(tag, 1000, 1, "").unwrap();
    }
    let before = tags(&daemon);
    for more in [
        &[][..],
        &["--tag", "mine"],
        &["--tag", "other", "--json", "--in-flight", "16"],
        &["--tags", "30", "--connections", "2"],
        &["--snowflake"],
    ] {
        let (_, errors) = bench(home, more);
        assert_eq!(errors, "", "{more:?}");
        assert_eq!(tags(&daemon), before, "{more:?}");
    }
    bench(home, &["--keep"]);
    assert!(tags(&daemon).contains(&"bench".to_owned()));
    // It is not this run's tag.
    bench(home, &[]);
    assert!(tags(&daemon).contains(&"bench".to_owned()));
}

fn where_tags_cannot_be_deleted_a_benchmark_says_which_remain(store: &TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(store, folder.path());
    store.sql("DROP TABLE leafd_tombstone");
    // All three are on their way at once, so that even a slow store makes each in a short run.
    let (_, errors) = bench(daemon.home(), &["--tags", "3", "--in-flight", "3"]);
    for part in ["3 tags that this run made remain", "bench-0", "207 NotConfigured"] {
        assert!(errors.contains(part), "{errors}");
    }
    let (_, errors) = bench(daemon.home(), &["--json"]);
    assert!(errors.contains("the tag bench, which this run made, remains: "), "{errors}");
    assert_eq!(tags(&daemon), ["bench", "bench-0", "bench-1", "bench-2"]);
}

#[test]
fn an_interrupted_benchmark_deletes_its_tag_and_keeps_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(&TestStore::sqlite(), folder.path());
    let mut terminal = Terminal::open(80, 24);
    let mut command = daemon.home().command("leafctl");
    terminal.run(command.args(["bench", "--warm-up", "0s", "--duration", "1h"]));
    // The progress of a run on a terminal.
    terminal.wait_for_text("requests/s  errors 0");
    assert_eq!(tags(&daemon), ["bench"]);
    terminal.type_keys("\x03");
    let ended = terminal.wait();
    assert!(ended.status.success(), "{terminal:?}");
    assert!(ended.screen.iter().any(|line| line.starts_with("IDs/s  ")), "{terminal:?}");
    assert!(tags(&daemon).is_empty(), "{terminal:?}");
}

#[test]
fn a_user_who_may_not_delete_tags_learns_that_the_benchmarks_tag_may_remain() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let daemon = Home::new(folder.path()).with("SOCKET_MODE", "0666").start();
    let mut command = as_ordinary_user(daemon.home(), folder.path());
    let output = command.args(["bench", "--duration", "200ms"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("if this run made the tag bench, it remains: "), "{errors}");
    assert!(errors.contains("206 Forbidden"), "{errors}");
    assert_eq!(tags(&daemon), ["bench"]);
}

#[test]
fn a_benchmark_counts_errors_by_number_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("QUOTA_IDS_PER_SECOND", "50");
    let _daemon = home.start();
    let (out, _) = bench(&home, &["--in-flight", "64"]);
    assert!(out.contains(" × 312 QuotaExceeded: "), "{out}");
    let (out, _) = bench(&home, &["--in-flight", "64", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let [error] = report["errors_by_code"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    assert_eq!((&error["code"], &error["name"]), (&312.into(), &"QuotaExceeded".into()));
    assert_eq!(error["count"], report["errors"]);
}

#[test]
fn a_benchmark_goes_on_after_a_kill_and_reports_lost_requests_and_dead_time() {
    for connections in ["1", "3"] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with_time_for_the_disk();
        let daemon = home.start();
        let mut command = home.command("leafctl");
        command.args(["bench", "--json", "--verify", "--warm-up", "0s", "--duration", "1h"]);
        command.args(["--timeout", "1m", "--in-flight", "8", "--connections", connections]);
        let bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let serves = |daemon: &Daemon| {
            let mut client = daemon.client();
            wait_until("IDs are issued", || client.status().unwrap().segments.issued > 10_000);
        };
        serves(&daemon);
        daemon.kill();
        std::thread::sleep(Duration::from_secs(1));
        let daemon = home.start();
        serves(&daemon);
        kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
        let output = bench.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let connections: u64 = connections.parse().unwrap();
        assert!(report["disconnects"].as_u64().unwrap() >= connections, "{report}");
        assert!(report["unanswered"].as_u64().unwrap() >= 1, "{report}");
        assert_eq!(report["duplicates"], 0, "{report}");
        let dead = &report["dead_time"];
        let figure = |name: &str| dead[name].as_f64().unwrap();
        assert!(figure("seconds") >= 1.0 && figure("longest_seconds") >= 1.0, "{report}");
        // IDs came before and afterwards.
        let end = figure("longest_from_seconds") + figure("longest_seconds");
        assert!(figure("longest_from_seconds") > 0.0, "{report}");
        assert!(end < report["duration_seconds"].as_f64().unwrap(), "{report}");
        assert!(tags(&daemon).is_empty());
    }
}

#[test]
fn the_report_of_a_benchmark_names_dead_time_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let daemon = home.start();
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut terminal = Terminal::open(columns, rows);
        let mut command = home.command("leafctl");
        terminal.run(command.args(["bench", "--warm-up", "0s", "--duration", "1h"]));
        terminal.wait_for_text("requests/s  errors 0");
        daemon.freeze();
        std::thread::sleep(Duration::from_millis(500));
        daemon.thaw();
        terminal.type_keys("\x03");
        let screen = terminal.wait().screen;
        let dead = screen.iter().find(|line| line.starts_with("dead time    "));
        assert!(dead.is_some_and(|line| line.contains(" s without IDs, ")), "{terminal:?}");
        assert!(!terminal.has_wrapped(), "{terminal:?}");
    }
}

#[test]
fn next_waits_for_a_quota_until_all_ids_have_come_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("QUOTA_IDS_PER_SECOND", "5");
    let _daemon = home.start();
    let ask = |arguments: &[&str]| {
        let (code, out, errors) = home.run("leafctl", arguments);
        assert_eq!(code, Some(0), "{errors}");
        (out, errors)
    };
    let (out, errors) = ask(&["--timeout", "1m", "next", "orders", "-n", "12"]);
    let ids: Vec<String> = (1..=12).map(|id| id.to_string()).collect();
    assert_eq!(out.lines().collect::<Vec<_>>(), ids);
    for part in ["312 QuotaExceeded", "retry after ", " of 12 IDs, about "] {
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let (out, _) = ask(&["--timeout", "1m", "snowflake", "-n", "12"]);
    assert_eq!(out.lines().count(), 12, "{out}");
}

#[test]
fn on_a_terminal_next_says_that_it_made_a_tag_and_which_one_may_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let daemon = home.start();
    for tag in ["invoices", "orders", "users"] {
        daemon.client().tag_create(tag, 1000, 1, "").unwrap();
    }
    let socket = home.socket();
    for (columns, rows, typo, other) in
        [(80, 24, "ordres", "payments"), (200, 50, "Orders", "refunds")]
    {
        let mut terminal = Terminal::open(columns, rows);
        let mut next = |tag: &str| {
            let mut command = home.command("leafctl");
            command.arg("--socket").arg(&socket).args(["next", tag]);
            terminal.run(&command);
            let ended = terminal.wait();
            assert!(ended.status.success(), "{terminal:?}");
            let text = terminal.received().replace("\r\n", "\n");
            terminal = Terminal::open(columns, rows);
            text
        };
        let text = next(typo);
        let delete = format!("leafctl --socket {} tag delete -- {typo}", socket.display());
        let said =
            format!("leafctl: made tag {typo}: did you mean orders? `{delete}` removes {typo}\n");
        assert_eq!(text, format!("1\n{said}"));
        assert_eq!(next(typo), "2\n");
        assert!(!next("orders").contains("made"));
        let text = next(other);
        assert!(text.contains(&format!("leafctl: made tag {other}; `")), "{text}");
    }
    // A script gets the IDs and nothing else.
    let (code, out, errors) = home.run("leafctl", &["next", "odrers"]);
    assert_eq!((code, out.as_str(), errors.as_str()), (Some(0), "1\n", ""));
}

#[test]
fn on_a_terminal_a_tag_is_deleted_only_by_typing_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let daemon = home.start();
    for (columns, rows) in [(80, 24), (200, 50)] {
        daemon.client().next("ordres").unwrap();
        for (typed, deletes) in [("orders\n", false), ("\n", false), ("ordres\n", true)] {
            let mut terminal = Terminal::open(columns, rows);
            terminal.run(home.command("leafctl").args(["tag", "delete", "ordres"]));
            terminal.wait_for_text("Type the tag to delete it:");
            terminal.type_keys(typed);
            assert_eq!(terminal.wait().status.success(), deletes, "{terminal:?}");
            assert_eq!(tags(&daemon).is_empty(), deletes, "{terminal:?}");
        }
    }
    // Without a terminal it takes an option.
    daemon.client().next("ordres").unwrap();
    let (code, _, errors) = home.run("leafctl", &["tag", "delete", "ordres"]);
    assert!(code == Some(64) && errors.contains("tag delete --yes -- ordres"), "{errors}");
    assert_eq!(tags(&daemon), ["ordres"]);
    assert_eq!(home.run("leafctl", &["tag", "delete", "ordres", "--yes"]).0, Some(0));
    assert!(tags(&daemon).is_empty());
}

#[test]
fn a_user_who_may_not_list_tags_learns_that_an_id_is_the_first_of_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let daemon = Home::new(folder.path()).with("SOCKET_MODE", "0666").start();
    let next = || {
        let user = ORDINARY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.arg(as_ordinary_user(daemon.home(), folder.path()).get_program());
        command.args(["next", "orders"]).env("LEAFD_SOCKET", daemon.home().socket());
        let mut terminal = Terminal::open(80, 24);
        terminal.run(&command);
        assert!(terminal.wait().status.success(), "{terminal:?}");
        terminal.received().replace("\r\n", "\n")
    };
    let text = next();
    assert!(text.contains("1 is the first ID of orders"), "{text}");
    assert_eq!(next(), "2\n");
}
