//! How `leafctl status` and `leafctl tag list` look: on terminals of several sizes, and where there is
//! no terminal.

use std::process::Command;

use leafd_tests::daemon::Home;
use leafd_tests::stores::wait_until;
use leafd_tests::{Daemon, Terminal};

/// A daemon with this many tags in use. `tag-00` has issued the most IDs.
fn with_tags(home: &Home, count: u32) -> Daemon {
    let daemon = home.start();
    let mut client = daemon.client();
    for number in 0..count {
        client.next_many(&format!("tag-{number:02}"), count - number).unwrap();
    }
    daemon
}

fn leafctl(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command("leafctl");
    command.args(arguments);
    command
}

/// The screen after leafctl has ended with success.
fn on(terminal: &mut Terminal, command: &Command) -> Vec<String> {
    terminal.run(command);
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
    ended.screen
}

fn piped(home: &Home, arguments: &[&str]) -> String {
    let (code, out, errors) = home.run("leafctl", arguments);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

fn tags(lines: &[String]) -> Vec<&str> {
    let first = lines.iter().filter_map(|line| line.split_whitespace().next());
    first.filter(|word| word.starts_with("tag-")).collect()
}

/// The words of the table's heading.
fn heading(lines: &[String]) -> String {
    let heading = lines.iter().find(|line| line.starts_with("TAG ")).expect("a heading");
    heading.split_whitespace().collect::<Vec<_>>().join(" ")
}

const EVERY_COLUMN: &str = "TAG REMAINING LASTS WAITING POSITION NEXT STEP ROW STEP ISSUED \
                            LAST LEASE CURRENT NEXT ERROR";

#[test]
fn with_many_tags_the_summary_stays_on_a_screen_of_80_by_24_and_nothing_wraps() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = with_tags(&home, 40);
    let mut terminal = Terminal::open(80, 24);
    let screen = on(&mut terminal, &leafctl(&home, &["status"]));
    assert!(!terminal.has_wrapped(), "{screen:#?}");
    assert!(screen[0].starts_with("leafd      "), "{screen:#?}");
    assert!(screen.iter().any(|line| line.starts_with("segments   sqlite")), "{screen:#?}");
    assert!(screen.iter().any(|line| line.starts_with("snowflake  serving")), "{screen:#?}");
    assert!(screen.iter().any(|line| line.ends_with(", ends 2080-07-10")), "{screen:#?}");
    assert!(heading(&screen).starts_with("TAG REMAINING LASTS WAITING POSITION"), "{screen:#?}");
    let shown = tags(&screen).len();
    assert!(shown >= 5, "{screen:#?}");
    // The last row is the prompt's.
    assert_eq!(screen[22], format!("and {} more: --all", 40 - shown));
    assert_eq!(screen[23], "");
}

#[test]
fn a_screen_of_200_by_50_shows_more_tags_and_more_columns() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = with_tags(&home, 30);
    let mut terminal = Terminal::open(200, 50);
    let screen = on(&mut terminal, &leafctl(&home, &["status"]));
    assert!(!terminal.has_wrapped(), "{screen:#?}");
    assert_eq!(tags(&screen).len(), 30, "{screen:#?}");
    assert!(!screen.iter().any(|line| line.contains("more: --all")), "{screen:#?}");
    // Nothing fails, so the column of errors is not there.
    assert_eq!(heading(&screen), EVERY_COLUMN.trim_end_matches(" ERROR"));
}

#[test]
fn all_prints_every_tag_and_wide_every_column_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = with_tags(&home, 40);
    let mut terminal = Terminal::open(80, 24);
    on(&mut terminal, &leafctl(&home, &["status", "--all"]));
    let received: Vec<_> = terminal.received().lines().map(str::to_owned).collect();
    assert_eq!(tags(&received).len(), 40, "{received:#?}");
    let mut terminal = Terminal::open(80, 24);
    let screen = on(&mut terminal, &leafctl(&home, &["status", "--wide"]));
    assert!(screen[0].starts_with("leafd      "), "{screen:#?}");
    assert!(terminal.has_wrapped(), "{screen:#?}");
    let received: Vec<_> =
        terminal.received().replace("\x1b[1m", "").lines().map(str::to_owned).collect();
    assert_eq!(heading(&received).replace("\x1b[0m", ""), EVERY_COLUMN);
}

#[test]
fn without_a_terminal_every_tag_and_column_is_there_in_a_stable_order() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = with_tags(&home, 60);
    let out = piped(&home, &["status"]);
    assert!(!out.contains('\x1b'), "{out}");
    let lines: Vec<_> = out.lines().map(str::to_owned).collect();
    let tags = tags(&lines);
    assert!(tags.len() == 60 && tags.is_sorted(), "{out}");
    assert_eq!(heading(&lines), EVERY_COLUMN);
    assert!(!out.contains("more: --all"), "{out}");
    // One line for each part, however long.
    assert!(lines[0].contains(home.state().to_str().unwrap()), "{out}");
    let narrow = home.clone().with_variable("COLUMNS", "20").with_variable("LINES", "5");
    assert_eq!(piped(&narrow, &["status"]).lines().count(), lines.len());
}

#[test]
fn status_and_tag_list_use_the_same_words_and_group_the_same_digits() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_DEFAULT_STEP", "12345");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let (status, list) = (piped(&home, &["status"]), piped(&home, &["tag", "list"]));
    let show = piped(&home, &["tag", "show", "orders"]);
    for out in [&status, &list] {
        assert!(out.contains("  ROW STEP  ") && out.contains("  12,345  "), "{out}");
    }
    assert!(show.contains("\nrow step     12,345\nnext step    "), "{show}");
    // IDs have no commas: they are to be pasted.
    assert!(status.contains("  [1, 12346)") && list.contains("  12346  "), "{status}{list}");
    let mut terminal = Terminal::open(60, 24);
    let description = "what the shop sells to people who came by the campaign of the spring";
    let create = ["tag", "create", "sales", "--description", description];
    piped(&home, &create);
    let screen = on(&mut terminal, &leafctl(&home, &["tag", "list"]));
    assert!(!terminal.has_wrapped(), "{screen:#?}");
    assert!(screen.iter().any(|line| line.starts_with("sales") && line.ends_with('…')));
    assert!(piped(&home, &["tag", "list"]).contains(description));
}

#[test]
fn memory_that_outlasts_the_day_says_so_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_DEFAULT_STEP", "100000000");
    let daemon = home.start();
    daemon.client().next_many("orders", 2).unwrap();
    // Idle, if the machine paused for a while.
    let out = piped(&home, &["status"]);
    let line = out.lines().find(|line| line.starts_with("orders")).unwrap();
    assert!(line.contains("  over a day  ") || line.contains("  idle  "), "{out}");
}

#[test]
fn soon_after_a_burst_its_tag_is_idle() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SEGMENT_DEFAULT_STEP", "1000000")
        .with("SEGMENT_REFRESH", "1h");
    let daemon = home.start();
    let mut client = daemon.client();
    client.next_many("orders", 1000).unwrap();
    // The rate covers ten seconds or more. Nothing but the status itself looks at the tag meanwhile.
    let idle = || piped(&home, &["status"]).contains("  idle  ");
    wait_until("it is idle", idle);
    // One more from memory, which no lease and no write follows: a slow load, as far as one can see.
    client.next("orders").unwrap();
    wait_until("it is idle again", idle);
}

#[test]
fn names_in_wide_characters_leave_the_columns_aligned() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_DEFAULT_STEP", "1000");
    let daemon = home.start();
    let names = ["orders", "订单", "注文-受付", "café", "🦀🦀🦀"];
    for name in names {
        daemon.client().next(name).unwrap();
    }
    let mut terminal = Terminal::open(80, 24);
    let screen = on(&mut terminal, &leafctl(&home, &["status"]));
    let first = screen.iter().position(|line| line.starts_with("TAG ")).unwrap();
    let column = u16::try_from(screen[first].find("REMAINING").unwrap()).unwrap();
    let remaining = terminal.part(column, 9);
    assert_eq!(remaining[first + 1..=first + names.len()], ["      999"; 5], "{screen:#?}");
}

/// A daemon whose store fails, and has told so.
fn failing(home: &Home) -> Daemon {
    home.break_store();
    let daemon = home.start();
    let failed = daemon.client().next("orders");
    assert!(failed.is_err(), "{failed:?}");
    daemon
}

#[test]
fn a_failure_is_red_unless_no_color_or_a_dumb_terminal_forbid_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_WAIT", "100ms");
    let _daemon = failing(&home);
    let mut terminal = Terminal::open(80, 24);
    let screen = on(&mut terminal, &leafctl(&home, &["status"]));
    assert!(screen.iter().any(|line| line.contains("the store failed: ")), "{screen:#?}");
    assert!(terminal.has_colour() && !terminal.has_wrapped(), "{screen:#?}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut terminal = Terminal::open(80, 24);
        let screen = on(&mut terminal, leafctl(&home, &["status"]).env(name, value));
        assert!(screen.iter().any(|line| line.contains("the store failed: ")), "{screen:#?}");
        assert!(!terminal.received().contains('\x1b'), "{name}: {:?}", terminal.received());
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_status_silently() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = with_tags(&home, 20);
    // The second reader ends before leafctl writes, and the third while it waits.
    for (arguments, reader) in [
        ("status", "head -n 1"),
        ("status", "true"),
        ("status --watch 1h", "head -n 1"),
        ("status --watch 100ms", "head -n 40"),
        ("tag list", "head -n 1"),
    ] {
        let script = format!("\"$0\" {arguments} | {reader}; exit ${{PIPESTATUS[0]}}");
        let home = home.clone().through(&["bash", "-c", &script]);
        let output = home.command("leafctl").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments} | {reader}: {output:?}");
        assert_eq!(output.stderr, b"", "{arguments} | {reader}: {output:?}");
    }
}
