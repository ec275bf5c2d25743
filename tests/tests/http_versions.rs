//! Callers that speak HTTP/1.0, such as `ab` and old proxies: each gets one answer and the end of its
//! connection, or keeps the connection if it asks for that.

use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::http::{HttpAnswer, HttpClient, HttpPlace, answers_in};

const GET: &str = "GET /api/segment/get/orders HTTP/1.0\r\nHost: localhost\r\n";
const POST: &str = "POST /v1/segment/orders HTTP/1.0\r\nHost: localhost\r\n\
                    Content-Type: application/json\r\n";
const KEEP: &str = "Connection: keep-alive\r\n";

fn serving(folder: &std::path::Path) -> (Daemon, HttpPlace) {
    let daemon = Home::new(folder).with_time_for_the_disk().with_http().start();
    let place = HttpPlace::of(daemon.home());
    (daemon, place)
}

/// All answers until leafd closes the connection, which it has to do by itself.
fn until_the_end(place: &HttpPlace, request: &str) -> Vec<HttpAnswer> {
    let mut client = place.connect();
    client.send_raw(request.as_bytes());
    let received = client.rest();
    assert!(received.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&received));
    answers_in(&received, false).unwrap()
}

fn receive(client: &mut HttpClient) -> HttpAnswer {
    client.receive().expect("an answer")
}

#[test]
fn a_request_of_http_1_0_gets_one_answer_and_the_end_of_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    // It needs no Host, and whatever follows it takes no ID.
    let bare = "GET /api/segment/get/orders HTTP/1.0\r\n";
    for (expected, request) in [
        ("1", format!("{GET}\r\n")),
        ("2", format!("{bare}\r\n")),
        ("3", format!("{GET}\r\n").repeat(3)),
        ("4", format!("{GET}Connection: keep-alive, close\r\n\r\n")),
        ("{\"ids\":[\"5\"]}", format!("{POST}Content-Length: 2\r\n\r\n{{}}")),
        // It does not know 100.
        (
            "{\"ids\":[\"6\"]}",
            format!("{POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{{}}"),
        ),
    ] {
        let answers = until_the_end(&place, &request);
        assert_eq!(answers.len(), 1, "{request:?}: {answers:?}");
        let answer = answers[0].clone().expect(200);
        assert_eq!(answer.text(), expected, "{request:?}");
        assert_ne!(answer.header("connection"), Some("keep-alive"), "{request:?}");
    }
    // It does not know chunks either.
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    until_the_end(&place, &chunked)[0].clone().expect(400);
    assert_eq!(place.leaf_id("orders"), 7);
    daemon.stop();
}

#[test]
fn a_connection_of_http_1_0_stays_while_the_caller_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    let mut client = place.connect();
    for expected in ["1", "2", "3"] {
        client.send_raw(format!("{GET}{KEEP}\r\n").as_bytes());
        let answer = receive(&mut client).expect(200);
        assert_eq!((answer.text(), answer.header("connection")), (expected, Some("keep-alive")));
    }
    client.send_raw(format!("{GET}{KEEP}\r\n").repeat(3).as_bytes());
    for expected in ["4", "5", "6"] {
        assert_eq!(receive(&mut client).expect(200).text(), expected, "in order, as pipelined");
    }
    client.send_raw(format!("GET /nothing HTTP/1.0\r\nHost: localhost\r\n{KEEP}\r\n").as_bytes());
    receive(&mut client).expect(404);
    client.send_raw(format!("{GET}\r\n").as_bytes());
    assert_eq!(receive(&mut client).expect(200).text(), "7");
    assert_eq!(client.rest(), b"", "the last one has not asked for more");
    daemon.stop();
}

#[test]
fn a_stream_by_http_1_0_is_not_chunked_and_ends_with_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    for keep in ["", KEEP] {
        let mut client = place.connect();
        let request = format!("GET /v1/events HTTP/1.0\r\nHost: localhost\r\n{keep}\r\n");
        client.send_raw(request.as_bytes());
        let head = client.wait_for("\r\n\r\n").to_lowercase();
        assert!(!head.contains("transfer-encoding") && !head.contains("keep-alive"), "{head}");
        assert_eq!(client.wait_for("\n\n"), "retry: 3000\n\n", "no size of a chunk");
        client.wait_for("event: view\ndata: {");
    }
    let mut client = place.connect();
    client.send_raw(b"GET /v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n");
    client.wait_for("event: view\ndata: {");
    daemon.stop();
    assert!(client.rest().ends_with(b"\n\n"), "the last event is whole");
}
