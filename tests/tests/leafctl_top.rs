//! `leafctl top`: in terminals of all sizes, in a pipe, over restarts of leafd, to its end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leafd_tests::Terminal;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::processes::is_stopped;
use leafd_tests::stores::wait_until;
use nix::sys::signal::Signal;

/// A top that asks often.
fn top(home: &Home) -> Command {
    let mut command = home.command("leafctl");
    command.args(["top", "--interval", "100ms"]);
    command
}

/// A terminal that shows the state of a running leafd.
fn watching(home: &Home, columns: u16, rows: u16) -> Terminal {
    let mut terminal = Terminal::open(columns, rows);
    terminal.run(&top(home));
    // At 40 columns the line ends before the end of what `q` does.
    terminal.wait_for_text("every 100 ms; q");
    terminal.wait_for_text("serving");
    terminal
}

fn has(screen: &[String], text: &str) -> bool {
    screen.iter().any(|line| line.contains(text))
}

/// The line of a tag.
fn row<'a>(screen: &'a [String], tag: &str) -> Option<&'a String> {
    screen.iter().find(|line| line.split(' ').next() == Some(tag))
}

/// Somebody who takes IDs of a tag until it is dropped.
struct Taker {
    enough: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    fn of(daemon: &Daemon, tag: &'static str) -> Self {
        let mut client = daemon.client();
        let enough = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&enough);
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                client.next_many(tag, 10).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { enough, thread: Some(thread) }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        let result = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || result.is_none_or(|result| result.is_ok()));
    }
}

#[test]
fn the_busiest_tag_comes_first_with_its_rate_bars_and_trend_in_every_size() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    for number in 0..60 {
        client.next(&format!("a-{number:02}")).unwrap();
    }
    let _taker = Taker::of(&daemon, "orders");
    for (columns, rows, tags) in [(80, 24, 17), (200, 50, 43), (40, 10, 4)] {
        let mut terminal = watching(&home, columns, rows);
        let first = |screen: &[String]| {
            let heading = screen.iter().position(|line| line.starts_with("TAG "));
            let first = heading.and_then(|at| screen.get(at + 1)).cloned().unwrap_or_default();
            let rate = first.split_whitespace().nth(1).unwrap_or_default();
            first.starts_with("orders ") && rate != "0" && rate != "-" && first.contains('█')
        };
        // The sparklines begin with the second reading.
        let trend = |screen: &[String]| has(screen, "▁") || columns < 60;
        // The last line, which is painted last.
        let count = |screen: &[String]| has(screen, " of 61");
        let screen = terminal.wait_for("busy tag on top, and how many there are", |screen| {
            first(screen) && trend(screen) && count(screen)
        });
        let shown = screen.iter().filter(|line| line.starts_with("a-")).count() + 1;
        assert!(shown >= tags, "{shown} tags:\n{screen:#?}");
        assert!(has(&screen, "TREND") || columns < 200, "{screen:#?}");
        assert!(terminal.is_alternate_screen() && !terminal.has_wrapped());
        terminal.type_keys("q");
        let ended = terminal.wait();
        assert!(ended.status.success() && ended.restored, "{ended:?}");
        assert!(ended.screen.iter().all(String::is_empty), "the old screen is back: {ended:?}");
    }
}

#[test]
fn keys_sort_scroll_and_search_and_each_new_size_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    for number in 0..60 {
        client.next(&format!("tag-{number:02}")).unwrap();
    }
    let mut terminal = watching(&home, 80, 24);
    terminal.wait_for_text(" of 60 by rate");
    terminal.type_keys("n");
    terminal.wait_for("names", |screen| has(screen, "by name") && row(screen, "tag-00").is_some());
    terminal.type_keys("\x1b[F");
    terminal.wait_for("end", |screen| {
        row(screen, "tag-59").is_some() && row(screen, "tag-00").is_none()
    });
    terminal.type_keys("/g-3q\x7f\n");
    let screen = terminal.wait_for_text("1-10 of 10 with \"g-3\" by name");
    assert!(row(&screen, "tag-39").is_some() && row(&screen, "tag-40").is_none(), "{screen:#?}");
    terminal.type_keys("/\n");
    terminal.wait_for_text(" of 60 by name");
    terminal.resize(200, 60);
    terminal.wait_for("all columns", |screen| has(screen, "TREND") && has(screen, "1-53 of 60"));
    terminal.resize(40, 10);
    let small = |screen: &[String]| screen.len() == 10 && has(screen, "1-4 of 60");
    terminal.wait_for("10 rows", small);
    assert!(!terminal.has_wrapped());
    terminal.type_keys("q");
    assert!(terminal.wait().restored);
}

#[test]
fn each_way_to_end_top_restores_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for end in ["q", "\x03", "\x1c", "TERM", "HUP"] {
        let mut terminal = watching(&home, 80, 24);
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
fn what_is_typed_after_q_is_left_to_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for command in [top(&home), {
        let mut watch = home.command("leafctl");
        watch.args(["status", "--watch", "100ms"]);
        watch
    }] {
        let mut shell = home.command("leafctl");
        let program = PathBuf::from(command.get_program());
        let words = command.get_args().map(|word| word.to_str().unwrap().to_owned());
        let line: Vec<_> =
            std::iter::once(program.to_str().unwrap().to_owned()).chain(words).collect();
        shell = in_shell(&shell, &format!("{}; read line; echo \"got $line\"", line.join(" ")));
        let mut terminal = Terminal::open(80, 24);
        terminal.run(&shell);
        terminal.wait_for_text("serving");
        // In one write: all of it is there when leafctl reads the q.
        terminal.type_keys("qan answer\n");
        terminal.wait_for_text("got an answer");
        let ended = terminal.wait();
        assert!(ended.status.success() && ended.restored, "{ended:?}");
    }
}

/// A shell with the variables of `command`.
fn in_shell(command: &Command, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_top_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let mut terminal = watching(&home, 80, 24);
    let process = PathBuf::from(format!("/proc/{}", terminal.pid()));
    terminal.type_keys("\x1a");
    wait_until("it stops", || is_stopped(Path::new(&process)));
    wait_until("the old screen is back", || !terminal.is_alternate_screen());
    terminal.send(Signal::SIGCONT);
    wait_until("top is back", || terminal.is_alternate_screen());
    terminal.wait_for_text("serving");
    terminal.type_keys("q");
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
}

#[test]
fn top_shows_since_when_leafd_is_away_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let mut terminal = watching(&home, 80, 24);
    terminal.wait_for("tag", |screen| row(screen, "orders").is_some());
    let first = daemon.pid();
    daemon.kill();
    let screen = terminal.wait_for_text("leafd is unreachable since 20");
    assert!(row(&screen, "orders").is_some(), "its last state stays: {screen:#?}");
    assert!(terminal.has_colour() && !terminal.has_wrapped(), "{screen:#?}");
    let daemon = home.start();
    let restart = format!("restarted: pid {first} is now {}", daemon.pid());
    let up = |screen: &[String]| has(screen, &restart) && !has(screen, "unreachable");
    terminal.wait_for("state of the new leafd", up);
    terminal.type_keys("q");
    assert!(terminal.wait().restored);
}

#[test]
fn after_count_rounds_top_leaves_the_last_one_on_the_screen_even_if_leafd_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).args(["--count", "3"]));
    let ended = terminal.wait();
    assert_eq!(ended.status.code(), Some(69), "{ended:?}");
    assert!(ended.restored && has(&ended.screen, "leafd is unreachable since"), "{ended:?}");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).args(["--count", "2"]));
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
    assert!(row(&ended.screen, "orders").is_some(), "{ended:?}");
}

#[test]
fn keys_work_while_leafd_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).args(["--timeout", "1h"]));
    terminal.wait_for_text("serving");
    daemon.freeze();
    terminal.type_keys("q");
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
}

#[test]
fn top_does_without_colours_without_redrawing_and_without_utf8_where_it_has_to() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    daemon.client().next("订单-orders").unwrap();
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).env("NO_COLOR", "1"));
    terminal.wait_for_text("订单-orders");
    assert!(!terminal.has_colour() && !terminal.received().contains("\x1b[1m"));
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).env("LC_ALL", "C"));
    let screen = terminal.wait_for_text("????-orders");
    assert!(has(&screen, "####") && terminal.received().is_ascii(), "{screen:#?}");
    let mut terminal = Terminal::open(80, 24);
    terminal.run(top(&home).env("TERM", "dumb"));
    let blocks = |screen: &[String]| screen.iter().filter(|line| line.starts_with("at ")).count();
    terminal.wait_for("third block", |screen| blocks(screen) > 2);
    assert!(!terminal.received().contains('\x1b'), "{:?}", terminal.received());
    terminal.type_keys("\x03");
    assert!(terminal.wait().restored);
}

#[test]
fn without_a_terminal_top_prints_plain_blocks_with_every_tag() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    for number in 0..150 {
        client.next(&format!("tag-{number:03}")).unwrap();
    }
    let (code, out, error) =
        home.run("leafctl", &["top", "--count", "2", "--interval", "100ms", "--sort", "name"]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    assert!(!out.contains('\x1b') && out.is_ascii(), "{out}");
    let blocks: Vec<&str> = out.split("\n\n").filter(|block| !block.is_empty()).collect();
    assert_eq!(blocks.len(), 2, "{out}");
    for block in blocks {
        assert!(block.starts_with("at 20") && block.contains("\nsnowflake  "), "{block}");
        let tags: Vec<_> = block.lines().filter(|line| line.starts_with("tag-")).collect();
        assert!(tags.len() == 150 && tags.is_sorted(), "{block}");
    }
    daemon.kill();
    let (code, out, error) = home.run("leafctl", &["top", "--count", "1"]);
    assert_eq!(code, Some(69), "{out}");
    assert!(
        out.contains("leafd is unreachable since") && error.contains("not reachable"),
        "{out}{error}"
    );
}
