//! The bounds of the HTTP server: slow and idle callers cost nobody else anything, and a probe always
//! gets in.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use leafd_tests::caller::wait_until;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::http::{HttpClient, HttpPlace};
use leafd_tests::scrape::scrape;

const GET: &[u8] = b"GET /api/segment/get/orders HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn home(folder: &std::path::Path) -> Home {
    Home::new(folder).with_time_for_the_disk().with_http()
}

#[test]
fn a_head_that_takes_too_long_gets_408_and_a_close_and_so_does_a_body() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_REQUEST_TIMEOUT", "300ms");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let head = "POST /v1/tags HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for begun in ["", "G", "GET /livez HTTP/1.1\r\n", &format!("{head}Content-Length: 9\r\n\r\n{{")]
    {
        let mut client = place.connect();
        client.send_raw(begun.as_bytes());
        let answer = client.receive().expect("an answer").expect(408);
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(client.rest(), b"", "{begun}");
    }
    // Sending a byte now and then gains nothing.
    let mut client = place.connect();
    let began = Instant::now();
    for byte in GET.iter().cycle() {
        client.send_raw(&[*byte & 0x5f | 0x40]);
        std::thread::sleep(Duration::from_millis(20));
        if began.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    assert_eq!(client.receive().map(|answer| answer.status), Some(408));
    daemon.stop();
}

#[test]
fn an_idle_connection_is_closed_without_a_word_and_one_with_requests_stays() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_IDLE_TIMEOUT", "1s");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut idle = place.connect();
    assert_eq!(idle.get("/livez").status, 200);
    assert_eq!(idle.rest(), b"");
    daemon.stop();
}

#[test]
fn a_client_that_reads_nothing_is_closed_and_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_WRITE_TIMEOUT", "500ms");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    assert_eq!(place.leaf_id("orders"), 1);
    let before = descriptors(daemon.pid());
    let mut greedy = place.connect();
    let ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let sender = std::thread::spawn(move || {
        greedy.send_raw(&ask);
        greedy
    });
    assert_eq!(place.leaf_id("orders"), 2);
    // Its connection ends although most answers are unread, so sending ends too.
    let greedy = sender.join().unwrap();
    wait_until(&home, "its end", || descriptors(daemon.pid()) <= before);
    drop(greedy);
    daemon.stop();
}

#[test]
fn slow_connections_make_room_then_idle_ones_and_a_probe_always_gets_in() {
    const LIMIT: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_MAX_CONNECTIONS", "8");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut idle = place.connect();
    idle.get("/livez").expect(200);
    // Slow ones fill the room; the oldest of them makes room for each new one.
    let mut slow: Vec<HttpClient> = Vec::new();
    for _ in 0..3 * LIMIT {
        let mut client = place.connect();
        client.send_raw(b"GET /livez HTTP/1.1\r\nHost:");
        slow.push(client);
    }
    place.get("/livez").expect(200);
    idle.get("/livez").expect(200);
    assert_eq!(slow[0].receive(), None, "the first slow one has made room");
    // Idle ones in all places: the one that is idle for longest makes room.
    let mut idle: Vec<_> = (0..2 * LIMIT)
        .map(|_| {
            let mut client = place.connect();
            client.get("/livez").expect(200);
            client
        })
        .collect();
    place.get("/livez").expect(200);
    assert_eq!(idle[0].receive(), None, "the first idle one has made room");
    idle.last_mut().unwrap().get("/livez").expect(200);
    daemon.stop();
}

#[test]
fn when_every_connection_waits_for_an_id_a_new_one_gets_503_and_the_socket_goes_on() {
    const LIMIT: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("HTTP_MAX_CONNECTIONS", "4");
    let home = home.with("SEGMENT_WAIT", "1m");
    home.break_store();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut waiting = waiting(&daemon, &place, LIMIT);
    let mut refused = place.connect();
    refused.send_raw(GET);
    let answer = refused.receive().expect("an answer").expect(503);
    assert!(answer.text().contains("http.max-connections"), "{}", answer.text());
    assert!(daemon.client().snowflake().unwrap() > 0);
    home.repair_store();
    let mut ids: Vec<u64> = waiting
        .iter_mut()
        .map(|client| client.receive().unwrap().expect(200).text().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4]);
    daemon.stop();
}

/// The memory that a process has, in bytes.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn long_answers_leave_no_memory_behind_whether_they_are_read_or_not() {
    const CONNECTIONS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("METRICS_TAGS", "[\"*\"]");
    let home = home.with("HTTP_IDLE_TIMEOUT", "1h").with("HTTP_WRITE_TIMEOUT", "1s");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut client = daemon.client();
    for number in 0..300 {
        client.next(&format!("tag-{number}")).unwrap();
    }
    let ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = place.get("/metrics").expect(200).body.len();
    assert!(length > 100_000, "{length}");
    let before = memory_of(daemon.pid());
    let mut idle: Vec<_> = (0..CONNECTIONS).map(|_| place.connect()).collect();
    for client in &mut idle {
        client.send_raw(ask);
        assert!(client.receive().expect("an answer").body.len() > length / 2);
    }
    let grown = memory_of(daemon.pid()).saturating_sub(before);
    assert!(grown < (CONNECTIONS * length / 2) as u64, "{grown} bytes more for {length} each");
    // Others do not read, and are closed.
    let open = descriptors(daemon.pid());
    let mut greedy: Vec<_> = (0..20).map(|_| place.connect()).collect();
    for client in &mut greedy {
        client.send_raw(&ask.repeat(200));
    }
    wait_until(&home, "their connections", || descriptors(daemon.pid()) >= open + 20);
    wait_until(&home, "their end", || descriptors(daemon.pid()) <= open);
    let grown = memory_of(daemon.pid()).saturating_sub(before);
    assert!(grown < (CONNECTIONS * length / 2) as u64, "{grown} bytes more for {length} each");
    idle[0].get("/livez").expect(200);
    daemon.stop();
}

/// Connections that wait for an ID, while the store is down.
fn waiting(daemon: &Daemon, place: &HttpPlace, count: usize) -> Vec<HttpClient> {
    let mut waiting: Vec<_> = (0..count).map(|_| place.connect()).collect();
    for client in &mut waiting {
        client.send_raw(GET);
    }
    wait_until(daemon.home(), "requests that wait", || {
        daemon.client().status().unwrap().segments.waiting == count as u64
    });
    waiting
}

#[test]
fn probes_and_scrapes_are_answered_while_every_connection_waits_for_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("HTTP_MAX_CONNECTIONS", "4");
    let home = home.with("SEGMENT_WAIT", "1m").with_time_for_the_disk();
    home.break_store();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut waiting = waiting(&daemon, &place, 4);
    // More than the reserve holds: callers that say nothing make room there.
    let silent: Vec<_> = (0..40).map(|_| place.connect()).collect();
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = place.get(path);
        assert!(answer.status == 200 || path == "/readyz", "{path}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{path}");
        assert!(!answer.text().contains("http.max-connections"), "{path}: {}", answer.text());
    }
    for path in ["/v1/status", "/", "/api/segment/get/orders"] {
        let answer = place.get(path).expect(503);
        assert!(answer.text().contains("http.max-connections"), "{path}: {}", answer.text());
    }
    home.log().wait_for("all HTTP connections are busy; serving new ones only probes");
    // At least the three above: the silent callers may have been too many for the reserve.
    let busy = scrape(place.address()).value("leafd_http_refused_total", &[("reason", "busy")]);
    assert!(busy >= 3.0, "{busy}");
    home.repair_store();
    for client in &mut waiting {
        client.receive().unwrap().expect(200);
    }
    place.get("/v1/status").expect(200);
    drop(silent);
    daemon.stop();
}

#[test]
fn where_descriptors_are_few_half_of_them_stay_with_the_applications_socket() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path())
        .with("SOCKET_MAX_CONNECTIONS", "1000")
        .through(&["prlimit", "--nofile=1000:1000"]);
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    home.log().wait_for("allows fewer connections than http.max-connections");
    let flood: Vec<_> = (0..900).filter_map(|_| place.try_connect().ok()).collect();
    assert_eq!(place.leaf_id("orders"), 1);
    let own: Vec<_> =
        (0..400).map(|_| UnixStream::connect(home.socket()).expect("a connection")).collect();
    assert_eq!(daemon.client().next("orders").unwrap(), 2);
    drop((flood, own));
    daemon.stop();
}

#[test]
fn probes_that_pile_up_while_leafd_is_frozen_are_answered_once_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut probes: Vec<_> = (0..200).map(|_| place.connect()).collect();
    daemon.freeze();
    for probe in &mut probes {
        probe.send_raw(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    daemon.thaw();
    for probe in &mut probes {
        assert_eq!(probe.receive().expect("an answer").expect(200).text(), "leafd answers\n");
    }
    daemon.stop();
}
