//! What `top` shows, without a terminal.

use std::time::Duration;

use clap::Parser;
use leaf_client::wire::{SnowflakeState, TagStatus};
use leafd::cli::leafctl::{Cli, LeafctlCommand};

use super::reader::{Round, Shown, TagPage};
use super::view::TopView;
use crate::exit::Failure;
use crate::live::{KeyEffect, LiveView, Reading};
use crate::screen::{Line, Screen};
use crate::status::tests::status;
use crate::tag::tests::tag;
use crate::text::width;

const AT: u64 = 1_600_000_000_000;

fn view(arguments: &[&str], utf8: bool) -> (TopView, Shown) {
    let line = ["leafctl", "top"].iter().chain(arguments);
    let LeafctlCommand::Top(args) = Cli::parse_from(line).command else { panic!("no top") };
    let shown = Shown::default();
    (TopView::new(&args, utf8, Shown::clone(&shown)), shown)
}

/// A round of a leafd with so many tags, of which the last is the busiest.
fn round(view: &mut TopView, second: u64, pid: u32, tags: u64) {
    let mut status = status(SnowflakeState::Serving);
    (status.pid, status.segments.tags) = (pid, tags);
    let tags = (0..tags).map(|number| {
        let issued = number * second * 10;
        TagStatus { issued, seconds_left: None, ..tag(&format!("tag-{number:05}")) }
    });
    let at = Duration::from_secs(second);
    let page = TagPage { after: String::new(), at, tags: tags.collect() };
    let round = Round { status, at, pages: Ok(vec![page]) };
    view.note(Reading { at_ms: AT + second * 1000, result: Ok(round) }).unwrap();
}

fn down(view: &mut TopView, second: u64) {
    let why = "cannot connect to leafd at /s\nIs leafd running?".to_owned();
    let result = Err(Failure::Unavailable(why));
    view.note(Reading { at_ms: AT + second * 1000, result }).unwrap();
}

fn screen(columns: usize, rows: usize) -> Screen {
    Screen { columns, rows, colours: false, redraws: true }
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

fn type_keys(view: &mut TopView, keys: &str) {
    for byte in keys.bytes() {
        assert_ne!(view.key(byte), KeyEffect::End, "{keys:?}");
    }
}

#[test]
fn every_frame_fits_its_terminal_and_uses_the_rows_that_it_has() {
    for tags in [0, 1, 30, 10_000] {
        for away in [false, true] {
            let (mut view, _) = view(&[], true);
            round(&mut view, 0, 7, tags);
            round(&mut view, 1, 8, tags);
            round(&mut view, 2, 8, tags);
            if away {
                down(&mut view, 3);
            }
            for (columns, rows) in [(1, 1), (9, 3), (40, 10), (80, 24), (200, 50)] {
                let frame = view.frame(&screen(columns, rows));
                let all = text(&frame);
                assert!(frame.len() <= rows, "{tags} tags in {rows} rows:\n{all}");
                assert!(frame.iter().all(|line| width(&line.text) <= columns), "{all}");
                let full = tags == 10_000 || rows <= 10 && tags > 0;
                assert!(!full || frame.len() == rows, "it leaves rows unused:\n{all}");
                let busiest = format!("tag-{:05}", tags.saturating_sub(1));
                assert!(tags == 0 || columns < 80 || all.contains(&busiest), "{all}");
            }
        }
    }
}

#[test]
fn keys_sort_scroll_and_search_and_the_reader_learns_what_is_on_the_screen() {
    let (mut view, shown) = view(&[], true);
    round(&mut view, 0, 7, 100);
    round(&mut view, 1, 7, 100);
    let small = screen(80, 24);
    let first = |view: &mut TopView| {
        view.frame(&small);
        shown.lock().unwrap().first().cloned().unwrap_or_default()
    };
    assert_eq!(first(&mut view), "tag-00099");
    type_keys(&mut view, "n");
    assert_eq!(first(&mut view), "tag-00000");
    type_keys(&mut view, "\x1b[B\x1b[Bj\x1b[A");
    assert_eq!(first(&mut view), "tag-00002");
    type_keys(&mut view, "\x1b[6~");
    let room = shown.lock().unwrap().len();
    assert_eq!(first(&mut view), format!("tag-{:05}", 2 + room));
    type_keys(&mut view, "\x1b[F");
    assert_eq!(first(&mut view), format!("tag-{:05}", 100 - room));
    type_keys(&mut view, "\x1b[H/0q\x7f4");
    assert!(text(&view.frame(&small)).ends_with("search: 04_\n"));
    type_keys(&mut view, "\n");
    let frame = text(&view.frame(&small));
    assert!(frame.contains(" of 11 with \"04\" by name; "), "{frame}");
    assert_eq!(first(&mut view), "tag-00004");
    type_keys(&mut view, "/\nr");
    assert_eq!(first(&mut view), "tag-00099");
    assert_eq!(view.key(b'q'), KeyEffect::End);
}

#[test]
fn an_outage_shows_since_when_above_the_last_state_and_a_restart_its_processes() {
    let (mut view, _) = view(&[], true);
    let usual = screen(80, 24);
    assert_eq!(text(&view.frame(&usual)), "waiting for leafd, every 1 s; q ends\n");
    round(&mut view, 0, 7, 1);
    down(&mut view, 2);
    down(&mut view, 64);
    let frame = text(&view.frame(&usual));
    let begin = "2020-09-13T12:27:44Z, every 1 s; q ends\n\
                 leafd is unreachable since 2020-09-13T12:26:42Z (1 min 2 s): cannot connect to\n\
                 leafd at /s\nleafd      0.1.0";
    assert!(frame.starts_with(begin) && frame.contains("tag-00000"), "{frame}");
    round(&mut view, 70, 8, 1);
    let frame = text(&view.frame(&usual));
    assert!(frame.contains("restarted: pid 7 is now 8, since 2020-09-13T12:27:50Z"), "{frame}");
    assert!(!frame.contains("unreachable"), "{frame}");
}

#[test]
fn it_ends_after_the_last_round_and_fails_if_leafd_was_away_then() {
    let (mut counted, _) = view(&["--count", "2"], true);
    round(&mut counted, 0, 7, 1);
    assert!(counted.outcome().is_none());
    down(&mut counted, 1);
    assert_eq!(counted.outcome().unwrap().unwrap_err().code(), 69);
    let (mut counted, _) = view(&["--count", "2"], true);
    down(&mut counted, 0);
    round(&mut counted, 1, 7, 1);
    assert!(counted.outcome().unwrap().is_ok());
    let (mut endless, _) = view(&[], true);
    down(&mut endless, 0);
    assert!(endless.outcome().is_none());
}

#[test]
fn without_utf8_a_terminal_gets_ascii_and_a_program_the_names_as_they_are() {
    let (mut view, _) = view(&[], false);
    round(&mut view, 0, 7, 3);
    round(&mut view, 1, 7, 3);
    let frame = text(&view.frame(&screen(80, 24)));
    assert!(frame.is_ascii() && frame.contains("########"), "{frame}");
    let block = text(&view.block(None));
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!(lines[0], "at 2020-09-13T12:26:41Z");
    assert!(lines.iter().any(|line| line.starts_with("tag-00002") && line.contains(" 20 ")));
    assert_eq!(lines.last(), Some(&""));
}
