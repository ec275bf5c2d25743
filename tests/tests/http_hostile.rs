//! Hostile requests by HTTP. Each gets a problem document or the end of its connection, memory stays
//! bounded, and neither other callers nor the applications' socket notice.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use leafd_tests::daemon::Home;
use leafd_tests::http::{HttpAnswer, HttpPlace};

fn home(folder: &std::path::Path) -> Home {
    Home::new(folder).with_time_for_the_disk().with_http()
}

/// A daemon that soon closes connections that say nothing.
fn impatient(folder: &std::path::Path) -> Home {
    home(folder).with("HTTP_REQUEST_TIMEOUT", "1s").with("HTTP_IDLE_TIMEOUT", "1s")
}

/// Sends bytes on a connection of its own. Returns every answer until leafd closes it.
fn answers(place: &HttpPlace, bytes: &[u8]) -> Vec<HttpAnswer> {
    let mut client = place.connect();
    client.send_raw(bytes);
    std::iter::from_fn(|| client.receive()).collect()
}

/// Asserts that every refusal is a problem document.
fn proper(answers: &[HttpAnswer], what: &[u8]) {
    for answer in answers {
        let what = String::from_utf8_lossy(&what[..what.len().min(300)]).into_owned();
        let has = |name| answer.header(name).unwrap_or_default();
        assert_eq!(has("cache-control"), "no-store", "{what:?}: {answer:?}");
        if answer.status >= 400 && !answer.body.is_empty() {
            assert_eq!(has("content-type"), "application/problem+json", "{what:?}: {answer:?}");
            assert_eq!(answer.json()["status"], answer.status, "{what:?}");
        }
    }
}

const GET: &str = "GET /api/segment/get/orders HTTP/1.1\r\nHost: localhost\r\n";

#[test]
fn requests_that_break_the_rules_of_http_get_a_problem_document_or_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let home = impatient(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let post = "POST /v1/segment/orders HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\n";
    let cases: Vec<(Vec<u8>, &[u16])> = vec![
        (b"\r\n\r\n".to_vec(), &[408]),
        (b"x".to_vec(), &[408]),
        (b"\0\0\0\0".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET\r\n\r\n".to_vec(), &[400]),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[]),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[404]),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[404, 405, 415]),
        (b"GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[200]),
        (b"GET http://evil.example/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[421]),
        (b"GET /v1/status HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (b"GET /livez HTTP/1.0\r\n\r\n".to_vec(), &[200]),
        (format!("{GET}X: a\0b\r\n\r\n").into_bytes(), &[400]),
        (format!("{GET} folded: x\r\n\r\n").into_bytes(), &[400]),
        (format!("{GET}no-colon\r\n\r\n").into_bytes(), &[400]),
        (format!("{GET}X : y\r\n\r\n").into_bytes(), &[400]),
        (format!("{GET}X: {}\r\n\r\n", "y".repeat(100_000)).into_bytes(), &[431]),
        (format!("{GET}{}\r\n", "X: y\r\n".repeat(1000)).into_bytes(), &[431]),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).into_bytes(), &[414, 431]),
        (format!("{post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab").into_bytes(), &[400]),
        (format!("{post}Content-Length: -1\r\n\r\n").into_bytes(), &[400]),
        (format!("{post}Content-Length: +2\r\n\r\n{{}}").into_bytes(), &[400]),
        (format!("{post}Content-Length: 99999999999999999999\r\n\r\n").into_bytes(), &[400]),
        (format!("{post}Content-Length: 18446744073709551615\r\n\r\n").into_bytes(), &[431]),
        (format!("{post}Transfer-Encoding: gzip\r\n\r\nx").into_bytes(), &[400]),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n").into_bytes(), &[400]),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n-1\r\n").into_bytes(), &[400]),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}xx").into_bytes(), &[400]),
        (
            format!("{post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n").into_bytes(),
            &[400],
        ),
        (format!("{post}Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000)).into(), &[413]),
        (format!("{GET}Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000)).into(), &[413]),
        (
            format!(
                "{post}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                "10\r\n0123456789abcdef\r\n".repeat(5000)
            )
            .into(),
            &[413],
        ),
        (format!("{post}Content-Length: 5\r\n\r\nab").into_bytes(), &[408]),
    ];
    for (bytes, expected) in cases {
        let found = answers(&place, &bytes);
        proper(&found, &bytes);
        let statuses: Vec<_> = found.iter().map(|answer| answer.status).collect();
        let first = statuses.first();
        let what = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        // A connection that ends without an answer is always right here.
        let allowed = first.is_none_or(|status| expected.contains(status));
        assert!(allowed && statuses.len() <= 1, "{what:?}: {statuses:?}");
        if first == Some(&431) {
            // Its message is about all of them, since hyper does not say which.
            let text = found[0].text();
            for cause in ["path", "headers", "Content-Length"] {
                assert!(text.contains(cause), "{what:?}: {text}");
            }
        }
        if matches!(expected, [400 | 408 | 413 | 431, ..]) && !bytes.starts_with(b"\0") {
            assert!(first.is_some(), "{what:?} got no answer");
        }
    }
    // None of them took an ID but those that were valid: none.
    assert_eq!(place.leaf_id("orders"), 1);
    daemon.stop();
}

#[test]
fn a_body_that_nobody_wants_is_read_before_the_answer_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut client = place.connect();
    for expected in 1..=3 {
        client.send_raw(format!("{GET}Content-Length: 10\r\n\r\n").as_bytes());
        // As Python's http.client, which writes head and body apart.
        std::thread::sleep(Duration::from_millis(20));
        client.send_raw(b"0123456789");
        assert_eq!(client.receive().unwrap().expect(200).text(), expected.to_string());
    }
    client
        .send_raw(format!("{GET}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes());
    assert_eq!(client.receive().unwrap().expect(200).text(), "4");
    daemon.stop();
}

#[test]
fn a_body_that_is_too_long_by_its_head_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_REQUEST_TIMEOUT", "10m");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let head = "POST /v1/tags HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for rest in ["Expect: 100-continue\r\n\r\n", "\r\n{\""] {
        let mut client = place.connect();
        client.send_raw(format!("{head}Content-Length: 1000000\r\n{rest}").as_bytes());
        // The first line, so nothing invites the body before.
        let line = client.wait_for("\r\n");
        assert!(line.starts_with("HTTP/1.1 413 "), "{line}");
    }
    daemon.stop();
}

#[test]
fn nothing_after_a_chunked_body_is_taken_for_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let post = "POST /v1/segment/orders HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\n";
    for lengths in ["", "Content-Length: 2\r\n"] {
        for headers in [
            format!("{lengths}Transfer-Encoding: chunked\r\n"),
            format!("Transfer-Encoding: chunked\r\n{lengths}"),
        ] {
            let bytes = format!("{post}{headers}\r\n2\r\n{{}}\r\n0\r\n\r\n{GET}\r\n");
            let found = answers(&place, bytes.as_bytes());
            assert_eq!(found.len(), 1, "{headers:?}: {found:?}");
            assert_eq!(found[0].clone().expect(200).header("connection"), Some("close"));
        }
    }
    assert_eq!(place.leaf_id("orders"), 5);
    daemon.stop();
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_bad_one_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let many = format!("{GET}\r\n").repeat(500);
    let mut client = place.connect();
    client.send_raw(many.as_bytes());
    let found: Vec<_> = (0..500).map(|_| client.receive().expect("an answer")).collect();
    let ids: Vec<u64> = found.iter().map(|answer| answer.text().parse().unwrap()).collect();
    assert_eq!(ids, (1..=500).collect::<Vec<_>>());
    let bad = format!("{GET}\r\n{GET}\r\nBAD\r\n\r\n{GET}\r\n");
    let found = answers(&place, bad.as_bytes());
    proper(&found, bad.as_bytes());
    let statuses: Vec<_> = found.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 400]);
    assert_eq!(place.leaf_id("orders"), 503);
    daemon.stop();
}

#[test]
fn connections_that_are_opened_and_reset_cost_nothing_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_MAX_CONNECTIONS", "16");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let before = descriptors(daemon.pid());
    for round in 0..500_usize {
        let mut stream = TcpStream::connect(place.address()).unwrap();
        let half = [&b"GET /"[..], b"POST /v1/tags HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", b""];
        let _ = stream.write_all(half[round % 3]);
    }
    assert_eq!(place.leaf_id("orders"), 1);
    let began = std::time::Instant::now();
    while descriptors(daemon.pid()) > before + 16 {
        assert!(began.elapsed() < leafd_tests::PATIENCE, "{}", descriptors(daemon.pid()));
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon.stop();
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}
