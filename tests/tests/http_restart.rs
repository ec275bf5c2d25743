//! HTTP across restarts: sockets that the service manager holds, a graceful stop, and callers that keep
//! their connections.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafd_tests::daemon::Home;
use leafd_tests::http::{HttpClient, HttpPlace};
use leafd_tests::{PATIENCE, UniqueIds};

/// Sends a `GET` until it is answered. As HTTP allows, it repeats a request on a new connection if the
/// old one, which was used before, ended before any byte of the answer. Returns the ID.
fn keep_asking(place: &HttpPlace, open: &mut Option<HttpClient>) -> Result<u64, String> {
    loop {
        let reused = open.is_some();
        let mut client = match open.take() {
            Some(client) => client,
            None => place.try_connect().map_err(|error| format!("no connection: {error}"))?,
        };
        match client.try_ask("GET", "/api/segment/get/orders", "\r\n") {
            Some(answer) if answer.status == 200 => {
                if answer.header("connection") != Some("close") {
                    *open = Some(client);
                }
                return Ok(answer.text().parse().expect("an ID"));
            }
            Some(answer) => return Err(format!("{answer:?}")),
            None if reused => {}
            None => return Err("a new connection ended without an answer".to_owned()),
        }
    }
}

#[test]
fn restarts_under_load_fail_no_request_while_the_service_manager_listens() {
    const LIVES: usize = 6;
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = HttpPlace::Port(listener.local_addr().unwrap());
    let home = Home::new(folder.path()).with_time_for_the_disk().inheriting("http", listener);
    let mut daemon = home.start();
    let seen = UniqueIds::default();
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (place, seen, stop) = (place.clone(), seen.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut open = None;
                while !stop.load(Ordering::Relaxed) {
                    let id = keep_asking(&place, &mut open).unwrap_or_else(|why| panic!("{why}"));
                    seen.add_run("orders", id, 1);
                }
            })
        })
        .collect();
    for _ in 0..LIVES {
        let before = seen.count("orders");
        let began = Instant::now();
        while seen.count("orders") < before + 100 {
            assert!(began.elapsed() < PATIENCE, "{}", home.log());
            assert!(!callers.iter().any(std::thread::JoinHandle::is_finished), "{}", home.log());
            std::thread::sleep(Duration::from_millis(2));
        }
        daemon.stop();
        // Long enough for callers to fail if connections were refused.
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..100)));
        daemon = home.start();
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.join().expect("a caller failed");
    }
    println!("{LIVES} restarts, {} IDs", seen.count("orders"));
    daemon.stop();
}

#[test]
fn both_sockets_for_http_can_be_inherited_and_stay_for_the_successor() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let by_port = HttpPlace::Port(port.local_addr().unwrap());
    let path = folder.path().join("web.sock");
    let local = UnixListener::bind(&path).unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let home = home.inheriting("http", port).inheriting("http-local", local);
    for life in 0..2 {
        let daemon = home.start();
        by_port.get("/livez").expect(200);
        HttpPlace::Socket(path.clone()).get("/v1/tags").expect(200);
        assert_eq!(by_port.get("/v1/tags").status, 403, "in life {life}");
        daemon.stop();
        assert!(path.exists(), "leafd removed a socket that is not its own");
    }
}

#[test]
fn keys_that_do_not_apply_to_inherited_sockets_cause_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = folder.path().join("other.sock");
    let local = UnixListener::bind(folder.path().join("web.sock")).unwrap();
    let home = Home::new(folder.path())
        .with("HTTP_LISTEN", "127.0.0.1:1")
        .with("HTTP_SOCKET", other.to_str().unwrap())
        .inheriting("http", port)
        .inheriting("http-local", local);
    let daemon = home.start();
    home.log().wait_for("and http.listen, 127.0.0.1:1, is not used");
    home.log().wait_for(&format!("and http.socket, {}, is not used", other.display()));
    assert!(!other.exists());
    daemon.stop();
}

#[test]
fn a_stop_answers_what_is_in_flight_and_closes_idle_connections() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with_http()
        .with_http_socket()
        .with("SEGMENT_WAIT", "1m")
        .with("SHUTDOWN_GRACE", "1m");
    home.break_store();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut idle = place.connect();
    idle.get("/livez").expect(200);
    let mut waiting = place.connect();
    waiting.send_raw(b"GET /api/segment/get/orders HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let began = Instant::now();
    while daemon.client().status().unwrap().segments.waiting != 1 {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.send(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(idle.rest(), b"");
    assert!(place.try_connect().is_err(), "nobody listens any more");
    home.repair_store();
    let answer = waiting.receive().expect("an answer").expect(200);
    assert_eq!((answer.text(), answer.header("connection")), ("1", Some("close")));
    daemon.stop();
    assert!(!home.http_socket().exists(), "leafd removes its own socket");
}
