//! `docs/protocol.md` suffices to write a client: one in Python that was written from that page
//! alone talks to the real daemon.

use std::process::Command;

use leafd_tests::binaries::workspace;
use leafd_tests::daemon::Home;

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
