//! `docs/protocol.md` is enough to write a client: one in Python, written from that page alone, talks to
//! the real daemon.

use std::process::Command;

use leaf_client::wire::{Call, ErrorCode, Reply};
use leafd_tests::binaries::workspace;
use leafd_tests::daemon::Home;
use leafd_tests::raw::Raw;

#[test]
fn a_client_written_from_the_page_alone_gets_what_the_page_promises() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let output = Command::new("python3")
        .args(["-B", "test_protocol.py"])
        .current_dir(workspace().join("tests/python"))
        .env("LEAFD_SOCKET", home.socket())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}\n{}", home.log());
    let ran = report.lines().find(|line| line.starts_with("Ran ")).unwrap_or_default();
    println!("Python: {ran}");
    let count: u32 = ran.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(count > 20, "{report}");
    daemon.stop();
}

#[test]
fn a_layout_with_few_sequence_bits_allows_fewer_snowflakes_at_once_and_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SNOWFLAKE_LAYOUT", "51/10/2@1288834974657")
        .with("SNOWFLAKE_RANDOM_START", "0");
    let daemon = home.start();
    let mut raw = Raw::greeted(&home.socket());
    // 10,000 times the four of a millisecond, as the page says.
    match raw.ask(2, Call::Snowflake { count: 40_001, timeout_ms: 0 }) {
        Reply::Error(error) => {
            assert_eq!((error.code(), error.detail), (ErrorCode::BadCount, 40_000), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // This count is allowed. It takes ten seconds to make the IDs, so a deadline of 1 ms fails with a
    // temporary error.
    match raw.ask(3, Call::Snowflake { count: 40_000, timeout_ms: 1 }) {
        Reply::Error(error) => assert!(error.code().is_temporary(), "{error}"),
        other => panic!("{other:?}"),
    }
    daemon.stop();
}
