//! Slow clients, which do not finish a request, do not read their answers, or do nothing at all. leafd
//! closes each at a timeout, and no other client waits for them.

use std::time::Duration;

use leaf_client::wire::{Call, ErrorCode, Reply, Response, encode_response};
use leafd_tests::Daemon;
use leafd_tests::daemon::Home;
use leafd_tests::raw::{Raw, frame, frame_of, hello, segment, snowflakes};
use leafd_tests::watch::{Bystanders, peak_mib};

/// Runs `act` on a daemon with this setting that serves other clients meanwhile. Returns the daemon's
/// peak memory, in MiB.
fn beside_others(setting: (&str, &str), act: impl FnOnce(&Home, &Daemon)) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with(setting.0, setting.1);
    let daemon = home.start();
    let others = Bystanders::of(&home);
    act(&home, &daemon);
    others.noticed_nothing();
    let peak = peak_mib(&daemon);
    println!("peak of {peak} MiB");
    daemon.stop();
    peak
}

#[test]
fn a_connection_without_a_hello_is_closed_at_the_request_timeout() {
    beside_others(("SOCKET_REQUEST_TIMEOUT", "300ms"), |home, _| {
        for begun in 0..hello().len() {
            let mut raw = Raw::connect(&home.socket());
            raw.send(&hello()[..begun]);
            if begun % 5 == 0 {
                assert_eq!(raw.receive(), None, "{begun} bytes of the hello");
            }
        }
    });
}

#[test]
fn a_connection_with_an_unfinished_request_is_closed_at_the_request_timeout() {
    beside_others(("SOCKET_REQUEST_TIMEOUT", "300ms"), |home, _| {
        let request = frame(2, segment("orders", 1));
        for begun in [1, 4, 5, request.len() - 1] {
            let mut raw = Raw::greeted(&home.socket());
            raw.send(&request[..begun]);
            assert_eq!(raw.receive(), None, "{begun} bytes");
        }
    });
}

#[test]
fn sending_single_bytes_does_not_extend_the_request_timeout() {
    beside_others(("SOCKET_REQUEST_TIMEOUT", "400ms"), |home, _| {
        // At this pace a frame of 4096 bytes takes minutes.
        let long = [&4096_u32.to_be_bytes()[..], &[0; 4096]].concat();
        for mut raw in [Raw::connect(&home.socket()), Raw::greeted(&home.socket())] {
            let drip = raw.stream().try_clone().unwrap();
            let bytes = long.clone();
            let dripping = std::thread::spawn(move || {
                let sent = bytes.chunks(1).take_while(|byte| {
                    std::thread::sleep(Duration::from_millis(50));
                    std::io::Write::write_all(&mut &drip, byte).is_ok()
                });
                sent.count()
            });
            assert_eq!(raw.receive(), None);
            let sent = dripping.join().unwrap();
            assert!(sent < 4096, "all {sent} bytes were taken");
        }
    });
}

#[test]
fn an_idle_connection_is_closed_and_one_whose_request_waits_is_not_idle() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_IDLE_TIMEOUT", "1s");
    // Requests for segment IDs wait for the store.
    home.break_store();
    let daemon = home.start();
    let mut waiting = Raw::greeted(&home.socket());
    waiting.send(&frame(2, Call::Segment { tag: "orders", count: 1, timeout_ms: 2500 }));
    let mut idle = Raw::greeted(&home.socket());
    assert_eq!(idle.receive(), None);
    let (id, error) = waiting.refusal();
    assert_eq!((id, error.code()), (2, ErrorCode::StoreUnavailable), "{error}");
    assert_eq!(waiting.receive(), None, "now it is idle");
    daemon.stop();
}

#[test]
fn clients_that_never_read_are_closed_at_the_write_timeout_and_cost_little_memory() {
    let peak = beside_others(("SOCKET_WRITE_TIMEOUT", "500ms"), |home, daemon| {
        let mut client = daemon.client();
        for tag in 0..100 {
            client.tag_create(&format!("{tag:0>128}"), 0, 1, &"🦀".repeat(256)).unwrap();
        }
        let list = frame(3, Call::TagList { after: "0", limit: 100 });
        let asked = [
            frame(2, Call::Status),
            list.clone(),
            frame(4, segment("orders", 100_000)),
            frame(5, segment("orders", 0)),
            frame(6, snowflakes(1000)),
        ];
        let asked =
            [asked.concat().repeat(20), list.repeat(1000), frame(7, Call::Time).repeat(5000)];
        let greedy: Vec<_> = (0..60)
            .map(|number| {
                let (socket, asked) = (home.socket(), asked[number % 3].clone());
                std::thread::spawn(move || {
                    let raw = Raw::greeted(&socket);
                    while std::io::Write::write_all(&mut raw.stream(), &asked).is_ok() {}
                    raw.wait_hung_up();
                })
            })
            .collect();
        for thread in greedy {
            thread.join().unwrap();
        }
    });
    // Each connection may hold up to 1 MiB of waiting requests and unread answers.
    assert!(peak < 96, "{peak} MiB");
}

#[test]
fn waiting_requests_are_answered_even_behind_more_answers_than_one_write_holds() {
    // The timeout is much longer than the test, so that no timer can help.
    beside_others(("SOCKET_REQUEST_TIMEOUT", "10m"), |home, daemon| {
        let mut raw = Raw::greeted(&home.socket());
        let unknown = frame_of(&[7, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0]);
        raw.send(&unknown);
        let answer = Response { id: 7, reply: Reply::Error(raw.refusal().1) };
        let mut bytes = Vec::new();
        encode_response(&answer, &mut bytes);
        // The number of answers that leafd writes at once.
        let enough = (8 * 1024_usize).div_ceil(bytes.len());
        for (round, count) in (enough - 1..=enough + 1).enumerate() {
            // Frozen, so that the daemon finds everything at once.
            daemon.freeze();
            let fresh = format!("fresh {round}");
            raw.send(&[unknown.repeat(count), frame(8, segment(&fresh, 1))].concat());
            daemon.thaw();
            for _ in 0..count {
                assert_eq!(raw.refusal().0, 7);
            }
            let answer = raw.receive().unwrap();
            assert!(matches!(answer.reply, Reply::Ids { .. }), "{answer:?}");
        }
    });
}
