//! `leafctl status --watch`: in a terminal and in a pipe, over restarts of leafd, to its end.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use leafd_tests::Terminal;
use leafd_tests::daemon::Home;
use leafd_tests::processes::is_stopped;
use leafd_tests::stores::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A watch that asks often.
fn watch(home: &Home) -> Command {
    let mut command = home.command("leafctl");
    command.args(["status", "--watch", "100ms"]);
    command
}

/// A terminal that shows the status of a running leafd.
fn watching(home: &Home) -> Terminal {
    let mut terminal = Terminal::open(80, 24);
    terminal.run(&watch(home));
    terminal.wait_for_text("every 100 ms; q ends");
    terminal.wait_for_text("snowflake  serving");
    terminal
}

fn has(screen: &[String], text: &str) -> bool {
    screen.iter().any(|line| line.contains(text))
}

#[test]
fn the_watch_redraws_in_place_and_fits_each_new_size() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut terminal = watching(&home);
    let mut client = daemon.client();
    for number in 0..40 {
        client.next(&format!("tag-{number:02}")).unwrap();
    }
    let screen = terminal.wait_for_text("tags 40,");
    assert!(screen[0].ends_with("every 100 ms; q ends"), "{screen:#?}");
    terminal.wait_for_text("more: --all");
    assert!(terminal.is_alternate_screen() && !terminal.has_wrapped());
    terminal.resize(200, 60);
    let all = |screen: &[String]| has(screen, "CURRENT") && has(screen, "tag-39");
    let screen = terminal.wait_for("status of 200 columns", all);
    assert!(!has(&screen, "more: --all") && !terminal.has_wrapped(), "{screen:#?}");
    terminal.resize(60, 12);
    let small = |screen: &[String]| screen.len() == 12 && screen[0].contains("q ends");
    terminal.wait_for("status of 12 rows", |screen| small(screen) && !has(screen, "CURRENT"));
    terminal.type_keys("q");
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
    assert!(ended.screen.iter().all(String::is_empty), "the old screen is back: {ended:?}");
}

#[test]
fn each_way_to_end_the_watch_restores_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for end in ["q", "\x03", "TERM", "HUP"] {
        let mut terminal = watching(&home);
        match end {
            "TERM" => terminal.send(Signal::SIGTERM),
            "HUP" => terminal.send(Signal::SIGHUP),
            keys => terminal.type_keys(keys),
        }
        let ended = terminal.wait();
        assert!(ended.status.success() && ended.restored, "{end:?}: {ended:?}");
    }
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_the_watch_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let mut terminal = watching(&home);
    let process = PathBuf::from(format!("/proc/{}", terminal.pid()));
    terminal.type_keys("\x1a");
    wait_until("it stops", || is_stopped(&process));
    wait_until("the old screen is back", || !terminal.is_alternate_screen());
    terminal.send(Signal::SIGCONT);
    wait_until("the watch is back", || terminal.is_alternate_screen());
    terminal.wait_for_text("snowflake  serving");
    terminal.type_keys("q");
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
}

#[test]
fn the_watch_shows_since_when_leafd_is_unreachable_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let mut terminal = watching(&home);
    let first = format!("pid {}", daemon.pid());
    terminal.wait_for_text(&first);
    daemon.kill();
    let down = |screen: &[String]| {
        has(screen, "leafd is unreachable since 20") && has(screen, "Its last status, of 20")
    };
    let screen = terminal.wait_for("outage", down);
    assert!(has(&screen, &first) && has(&screen, "orders"), "{screen:#?}");
    assert!(terminal.has_colour() && !terminal.has_wrapped(), "{screen:#?}");
    let daemon = home.start();
    let second = format!("pid {}", daemon.pid());
    let up = |screen: &[String]| has(screen, &second) && !has(screen, "unreachable");
    terminal.wait_for("status of the new leafd", up);
    terminal.type_keys("q");
    assert!(terminal.wait().restored);
}

#[test]
fn a_watch_may_begin_before_leafd() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut terminal = Terminal::open(80, 24);
    terminal.run(&watch(&home));
    terminal.wait_for_text("leafd is unreachable since");
    let _daemon = home.start();
    terminal.wait_for_text("snowflake  serving");
    terminal.type_keys("q");
    assert!(terminal.wait().restored);
}

#[test]
fn keys_work_while_leafd_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut terminal = Terminal::open(80, 24);
    // Without the thread that asks, the key would have to wait for the answer: for ever.
    terminal.run(watch(&home).args(["--timeout", "1h"]));
    terminal.wait_for_text("snowflake  serving");
    daemon.freeze();
    terminal.type_keys("q");
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
}

#[test]
fn no_color_and_a_dumb_terminal_watch_without_colours_and_the_latter_without_redrawing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut terminal = Terminal::open(80, 24);
    terminal.run(watch(&home).env("NO_COLOR", "1"));
    terminal.wait_for_text("leafd is unreachable since");
    assert!(!terminal.has_colour() && terminal.is_alternate_screen());
    let mut terminal = Terminal::open(80, 24);
    terminal.run(watch(&home).env("TERM", "dumb"));
    let blocks = |screen: &[String]| {
        screen.iter().filter(|line| line.contains("leafd is unreachable since")).count() > 2
    };
    terminal.wait_for("third block", blocks);
    assert!(!terminal.received().contains('\x1b'), "{:?}", terminal.received());
    terminal.type_keys("\x03");
    assert!(terminal.wait().restored);
}

#[test]
fn without_a_terminal_the_watch_prints_block_after_block_over_a_restart_until_it_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let mut watch = watch(&home).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    // leafctl prints on for ever, so a promise that does not hold shows as a watch without an end.
    let mut until = |begin: &str| {
        let line = lines.by_ref().take(10_000).find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("no line begins with {begin}"))
    };
    let block = |until: &mut dyn FnMut(&str) -> String| {
        for begin in ["at 20", "leafd      ", "TAG  ", "orders  "] {
            assert!(!until(begin).contains('\x1b'));
        }
        assert_eq!(until(""), "");
    };
    block(&mut until);
    block(&mut until);
    daemon.kill();
    assert!(until("leafd is unreachable since 20").contains("leafd.sock"));
    let _daemon = home.start();
    block(&mut until);
    kill(Pid::from_raw(watch.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}
