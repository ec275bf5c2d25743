//! Stops and restarts of leafd, idle and under load. No call fails, a clean stop loses no ID, and no
//! client can delay a stop.

use std::io::{Read, Write};
use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply, Response, UNSOLICITED, encode_response};
use leafd_tests::UniqueIds;
use leafd_tests::daemon::Home;
use leafd_tests::load::{AsyncLoad, Load, SNOWFLAKE};
use leafd_tests::raw::{Raw, frame};
use nix::sys::signal::Signal;

#[test]
fn sigterm_and_sigint_end_leafd_with_0_and_clients_receive_goodbye() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = home.start();
        let mut idle = Raw::greeted(&home.socket());
        let mut silent = Raw::connect(&home.socket());
        let mut client = daemon.client();
        client.next("orders").unwrap();
        client.snowflake().unwrap();
        daemon.send(signal);
        let ended = daemon.wait();
        assert_eq!(ended.code(), Some(0), "{signal}: {ended}");
        for raw in [&mut idle, &mut silent] {
            let goodbye = Response { id: UNSOLICITED, reply: Reply::Goodbye };
            assert_eq!(raw.receive(), Some(goodbye));
            assert_eq!(raw.receive(), None);
        }
        assert!(!home.socket().exists(), "the socket is left behind");
    }
}

#[test]
fn sigusr1_and_sigusr2_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).start();
    let mut client = daemon.client();
    for id in 1..=10 {
        daemon.send(Signal::SIGUSR1);
        daemon.send(Signal::SIGUSR2);
        assert_eq!(client.next("orders").unwrap(), id);
    }
    daemon.stop();
}

#[test]
fn repeated_signals_do_not_make_the_stop_unclean() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = home.start();
        seen.add("orders", &daemon.client().next_many("orders", 7).unwrap());
        for _ in 0..100 {
            daemon.send(signal);
        }
        let ended = daemon.wait();
        assert_eq!(ended.code(), Some(0), "{ended}");
    }
    let daemon = home.start();
    seen.add("orders", &daemon.client().next_many("orders", 7).unwrap());
    assert_eq!(seen.highest("orders"), Some(21), "an ID is lost");
    daemon.stop();
}

#[test]
fn restarts_under_load_fail_no_call_of_any_client_and_give_no_id_twice() {
    const RESTARTS: u32 = 12;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    let mut daemon = home.start();
    let options = home.options().timeout(Duration::from_secs(30));
    let shared = AsyncLoad::start(&options, &seen);
    let spaces = ["orders", "users", SNOWFLAKE];
    let load = Load::start(&options, &seen, &spaces, 3000);
    for restart in 0..RESTARTS {
        let before = spaces.map(|space| seen.count(space));
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..200)));
        daemon.stop();
        daemon = home.start();
        while spaces.iter().zip(before).any(|(space, before)| seen.count(space) == before) {
            assert!(!load.is_broken(), "after {restart} restarts\n{}", home.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(shared.finish(), [""; 0], "calls of asynchronous clients\n{}", home.log());
    assert_eq!(load.finish(), 0, "calls of blocking clients\n{}", home.log());
    println!("{RESTARTS} restarts, {} IDs", seen.total());
    daemon.stop();
}

#[test]
fn a_clean_stop_loses_no_segment_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let seen = UniqueIds::default();
    for life in 1..=5 {
        let daemon = home.start();
        let mut client = daemon.client();
        // Inside a lease, across its end, and in the middle of the next one.
        for count in [1, 499, 1, 800, 2500, 3] {
            for tag in ["orders", "a/b c%d\u{e9}"] {
                seen.add(tag, &client.next_many(tag, count).unwrap());
                let (count, highest) = (seen.count(tag), seen.highest(tag));
                assert_eq!(Some(count), highest, "a gap in life {life}\n{}", home.log());
            }
        }
        daemon.stop();
    }
    assert_eq!(seen.count("orders"), 5 * 3804);
}

#[test]
fn requests_that_wait_for_the_store_do_not_delay_the_stop_and_clients_receive_goodbye() {
    let folder = tempfile::tempdir().unwrap();
    // Requests may wait much longer than this test lasts.
    let home =
        Home::new(folder.path()).with("SEGMENT_MAX_WAIT", "1h").with("SHUTDOWN_GRACE", "300ms");
    home.break_store();
    let mut daemon = home.start();
    let mut waiting: Vec<_> = (0..50).map(|_| Raw::greeted(&home.socket())).collect();
    for raw in &mut waiting {
        let call = Call::Segment { tag: "orders", count: 1, timeout_ms: 3_600_000 };
        raw.send(&[frame(2, call), frame(3, Call::Time)].concat());
        assert!(matches!(raw.receive(), Some(Response { id: 3, reply: Reply::Time { .. } })));
    }
    let status = daemon.client().status().unwrap();
    assert_eq!(status.segments.waiting, 50);
    daemon.send(Signal::SIGTERM);
    let ended = daemon.wait();
    assert_eq!(ended.code(), Some(0), "{ended}");
    let mut answered = 0;
    for raw in &mut waiting {
        let goodbye = Response { id: UNSOLICITED, reply: Reply::Goodbye };
        assert_eq!(raw.receive(), Some(goodbye));
        if let Some(answer) = raw.receive() {
            match answer {
                Response { id: 2, reply: Reply::Error(error) } => {
                    assert_eq!(error.code(), ErrorCode::ShuttingDown, "{error}");
                    answered += 1;
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(raw.receive(), None);
        }
    }
    println!("{answered} of {} requests were answered before the end", waiting.len());
}

#[test]
fn clients_that_do_not_read_or_finish_a_request_do_not_delay_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SHUTDOWN_GRACE", "300ms")
        .with("SOCKET_WRITE_TIMEOUT", "1h")
        .with("SOCKET_REQUEST_TIMEOUT", "1h");
    let mut daemon = home.start();
    let mut half = Raw::greeted(&home.socket());
    half.send(&frame(2, Call::Time)[..9]);
    let unread = Raw::greeted(&home.socket());
    unread.stream().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let many = frame(3, Call::Time).repeat(1000);
    // Until the socket is full.
    while unread.stream().write_all(&many).is_ok() {}
    daemon.send(Signal::SIGTERM);
    let ended = daemon.wait();
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert_eq!(half.receive(), Some(Response { id: UNSOLICITED, reply: Reply::Goodbye }));
}

#[test]
fn clients_that_ask_without_a_pause_receive_goodbye_and_do_not_delay_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SHUTDOWN_GRACE", "20s");
    let mut daemon = home.start();
    // Together they exceed their user's share, so that some of them are queued when leafd stops.
    let greedy: Vec<_> = (0..8).map(|_| ask_without_a_pause(&home)).collect();
    std::thread::sleep(Duration::from_millis(300));
    daemon.send(Signal::SIGTERM);
    let ended = daemon.wait();
    assert_eq!(ended.code(), Some(0), "{ended}");
    let mut goodbye = Vec::new();
    encode_response(&Response { id: UNSOLICITED, reply: Reply::Goodbye }, &mut goodbye);
    for last in greedy {
        let last = last.join().unwrap();
        assert!(last.ends_with(&goodbye), "{last:02x?}\n{}", home.log());
    }
}

/// Starts a client that writes requests from two threads and reads all answers. Returns the last bytes
/// that it read.
fn ask_without_a_pause(home: &Home) -> std::thread::JoinHandle<Vec<u8>> {
    let client = Raw::greeted(&home.socket());
    let stream = || client.stream().try_clone().unwrap();
    let many = frame(2, Call::Time).repeat(20_000);
    for _ in 0..2 {
        let (mut stream, many) = (stream(), many.clone());
        // Until leafd closes the connection.
        std::thread::spawn(move || while stream.write_all(&many).is_ok() {});
    }
    let mut answers = stream();
    std::thread::spawn(move || {
        let (mut buffer, mut last) = (vec![0; 1 << 20], Vec::new());
        while let Ok(count @ 1..) = answers.read(&mut buffer) {
            last.extend_from_slice(&buffer[..count]);
            last.drain(..last.len().saturating_sub(64));
        }
        last
    })
}
