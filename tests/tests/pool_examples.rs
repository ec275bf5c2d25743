//! The examples of pools do what they say, against a real leafd.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use leafd_tests::binaries::example;
use leafd_tests::daemon::Home;

/// Ends the process with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_workers_of_the_preforking_example_get_different_ids() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let program = example("preforking");
    let output = Command::new(program).env("LEAFD_SOCKET", home.socket()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let ids: Vec<u64> =
        text.lines().filter_map(|line| line.split_once(": order ")?.1.parse().ok()).collect();
    assert_eq!(ids.len(), 20, "{text}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 20, "{text}");
    daemon.stop();
}

#[test]
fn the_handler_of_the_axum_example_answers_with_an_id_and_reports_an_outage_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut command = Command::new(example("axum_handler"));
    command.env("LEAFD_SOCKET", home.socket()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut service = Running(command.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(service.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().strip_suffix("/orders").unwrap();
    let post = || {
        let mut connection = TcpStream::connect(address).unwrap();
        let request = "POST /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(post().ends_with("{\"id\":\"1\"}\n"));
    daemon.kill();
    // The first chunk has a hundred IDs.
    for expected in 2..=100 {
        assert!(post().ends_with(&format!("{{\"id\":\"{expected}\"}}\n")));
    }
    let answer = post();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("not reachable"), "{answer}");
    let daemon = home.start();
    while !post().starts_with("HTTP/1.1 200 ") {}
    drop(daemon);
    let mut reports = service.0.stderr.take().unwrap();
    drop(service);
    let mut text = String::new();
    reports.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("no new IDs").count(), 1, "{text}");
    assert_eq!(text.matches("new IDs again").count(), 1, "{text}");
}
