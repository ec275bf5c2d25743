//! Clients that ask for too much: on one connection, of many tags, of the store, or with random bytes.
//! Each gets an error that names the limit it hit, and no other client is affected.

use std::io::Write;
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, HEADER_LEN, Reply, Response};
use leaf_client::{Error, blocking};
use leafd_tests::StoreLock;
use leafd_tests::daemon::Home;
use leafd_tests::raw::{Raw, frame, hello};
use leafd_tests::watch::{Bystanders, peak_mib, resident_kib};

fn segment(tag: &str, count: u32, timeout_ms: u32) -> Call<'_> {
    Call::Segment { tag, count, timeout_ms }
}

#[test]
fn more_waiting_requests_than_a_connection_may_have_are_refused_and_the_others_are_answered() {
    const LIMIT: u64 = 32;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_MAX_IN_FLIGHT", "32");
    let daemon = home.start();
    // The IDs of this tag are in memory.
    daemon.client().next_many("others", 1).unwrap();
    let lock = StoreLock::hold(&home);
    let mut raw = Raw::greeted(&home.socket());
    let ids = 1..=LIMIT + 10;
    let asked = ids.clone().map(|id| frame(id, segment("waits", 1, 20_000)));
    raw.send(&asked.collect::<Vec<_>>().concat());
    for id in LIMIT + 1..=LIMIT + 10 {
        let (refused, error) = raw.refusal();
        assert_eq!((refused, error.code()), (id, ErrorCode::TooManyInFlight), "{error}");
        assert_eq!(error.detail, LIMIT);
        assert!(error.retry_after_ms > 0);
    }
    // A request that memory serves needs no place, and another connection has places of its own.
    assert!(matches!(raw.ask(100, segment("others", 1, 0)), Reply::Ids { .. }));
    assert!(matches!(raw.ask(101, Call::Time), Reply::Time { .. }));
    let mut other = Raw::greeted(&home.socket());
    other.send(&frame(1, segment("waits", 1, 20_000)));
    drop(lock);
    let mut answered = Vec::new();
    for _ in 1..=LIMIT {
        match raw.receive() {
            Some(Response { id, reply: Reply::Ids { .. } }) => answered.push(id),
            other => panic!("{other:?}"),
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (1..=LIMIT).collect::<Vec<_>>());
    assert!(matches!(other.receive(), Some(Response { id: 1, reply: Reply::Ids { .. } })));
    daemon.stop();
}

#[test]
fn a_flood_of_administrative_calls_to_a_stuck_store_delays_neither_ids_nor_status_nor_others() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("STORE_TIMEOUT", "500ms")
        .with("SEGMENT_WAIT", "4s")
        .with("SEGMENT_DEFAULT_STEP", "1000000");
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let lock = StoreLock::hold(&home);
    let mut flood = Raw::greeted(&home.socket());
    let call = Call::TagSetStep { tag: "bystander", step: 5 };
    flood.send(&frame(7, call).repeat(1000));
    let mut client = blocking::Client::new(home.options().timeout(Duration::from_secs(30)));
    for _ in 0..3 {
        client.status().unwrap();
        match client.tag_set_step("bystander", 5) {
            Err(Error::Refused(error)) => {
                assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let mut late = 0;
    for _ in 0..1000 {
        match flood.refusal().1.code() {
            ErrorCode::StoreUnavailable => {}
            ErrorCode::DeadlineExceeded => late += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(late > 900, "{late}");
    drop(lock);
    let began = Instant::now();
    while let Err(error) = client.tag_set_step("bystander", 5) {
        assert!(began.elapsed() < Duration::from_secs(30), "{error}\n{}", home.log());
    }
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn requests_for_ever_new_unknown_tags_are_refused_and_fill_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_AUTO_CREATE", "false");
    let daemon = home.start();
    for tag in ["bystander", "known"] {
        daemon.client().tag_create(tag, 0, 1, "").unwrap();
    }
    let others = Bystanders::of(&home);
    let mut raw = Raw::greeted(&home.socket());
    let mut sizes = Vec::new();
    for round in 0..20 {
        for page in 0..20 {
            let names = (0..50).map(|name| format!("{round} {page} {name} {}", "x".repeat(100)));
            let asked: Vec<_> = names.map(|name| frame(9, segment(&name, 1, 0))).collect();
            raw.send(&asked.concat());
            for _ in 0..asked.len() {
                assert_eq!(raw.refusal().1.code(), ErrorCode::UnknownTag);
            }
        }
        sizes.push(resident_kib(&daemon));
    }
    println!("resident after each 1,000 names: {sizes:?} KiB");
    // Keeping each of the names would take 20 MiB.
    assert!(sizes[19] < sizes[4] + 8192, "{sizes:?}");
    assert!(matches!(raw.ask(10, segment("known", 1, 0)), Reply::Ids { .. }));
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn tags_above_the_limit_are_refused_with_the_limit_and_known_tags_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_MAX_TAGS", "50");
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let mut raw = Raw::greeted(&home.socket());
    let mut refused = 0;
    for number in 0..100 {
        match raw.ask(number + 1, segment(&format!("t{number}"), 1, 0)) {
            Reply::Ids { .. } => assert!(number < 49, "{number}"),
            Reply::Error(error) => {
                assert_eq!(error.code(), ErrorCode::TooManyTags, "{error}");
                assert_eq!(error.detail, 50);
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 51);
    assert!(matches!(raw.ask(200, segment("t7", 1, 0)), Reply::Ids { .. }));
    others.noticed_nothing();
    daemon.stop();
}

/// Some valid frames with some bytes changed.
fn noise(seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes = if rng.u8(..) < 200 { hello() } else { Vec::new() };
    for id in 2..rng.u64(3..40) {
        let mut one = match rng.u8(..9) {
            0 => hello(),
            1 => frame(id, segment("garbage", rng.u32(..), rng.u32(..3000))),
            2 => frame(id, Call::Snowflake { count: rng.u32(..200), timeout_ms: rng.u32(..) }),
            3 => frame(id, Call::Status),
            4 => frame(id, Call::TagList { after: "", limit: rng.u32(..200) }),
            5 => frame(id, Call::TagShow { tag: "garbage" }),
            6 => frame(id, Call::TagSetStep { tag: "garbage", step: rng.u32(..3000) }),
            7 => frame(id, Call::Time),
            _ => {
                let len = rng.usize(..200);
                std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
            }
        };
        for _ in 0..rng.usize(..3) {
            let spared = if rng.u8(..) < 220 { HEADER_LEN } else { 0 };
            if one.len() > spared {
                let at = rng.usize(spared..one.len());
                one[at] = rng.u8(..);
            }
        }
        if rng.u8(..) < 10 {
            one.truncate(rng.usize(..=one.len()));
        }
        bytes.extend(one);
    }
    bytes
}

#[test]
fn two_thousand_connections_with_random_bytes_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_REQUEST_TIMEOUT", "200ms");
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let first = fastrand::u64(..u64::MAX - 2000);
    println!("seeds from {first} on");
    let (mut answers, mut errors) = (0_u32, 0_u32);
    for batch in 0..40 {
        let connections: Vec<_> = (0..50)
            .map(|number| {
                let mut raw = Raw::connect(&home.socket());
                raw.send(&noise(first + batch * 50 + number));
                if number % 2 == 0 {
                    let _ = raw.stream().shutdown(std::net::Shutdown::Write);
                }
                raw
            })
            .collect();
        for (number, mut raw) in connections.into_iter().enumerate() {
            // Half of the connections read to the end; the others are just dropped.
            while number % 2 == 0
                && let Some(answer) = raw.receive()
            {
                answers += 1;
                errors += u32::from(matches!(answer.reply, Reply::Error(_)));
            }
        }
    }
    println!("{answers} answers, {errors} of them errors");
    assert!(answers > 2000 && errors > 1000, "{answers} answers, {errors} errors");
    others.noticed_nothing();
    let peak = peak_mib(&daemon);
    assert!(peak < 40, "{peak} MiB");
    daemon.stop();
}

#[test]
fn clients_that_ask_as_fast_as_they_can_do_not_starve_a_modest_one() {
    const GREEDY: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_DEFAULT_STEP", "1000000");
    let daemon = home.start();
    let mut client = daemon.client();
    for tag in ["greedy", "modest"] {
        client.next(tag).unwrap();
    }
    let greedy: Vec<_> = (0..GREEDY)
        .map(|_| {
            let asking = Raw::greeted(&home.socket());
            let mut reading = asking.stream().try_clone().unwrap();
            let reader =
                std::thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
            let writer = std::thread::spawn(move || {
                let asked = frame(5, segment("greedy", 1, 0)).repeat(1000);
                for _ in 0..100 {
                    asking.stream().write_all(&asked).unwrap();
                }
                asking.stream().shutdown(std::net::Shutdown::Write).unwrap();
            });
            (reader, writer)
        })
        .collect();
    let mut served = 0;
    while greedy.iter().any(|(_, writer)| !writer.is_finished()) {
        client.next("modest").unwrap();
        served += 1;
    }
    let bytes = greedy.into_iter().map(|(reader, writer)| {
        writer.join().unwrap();
        reader.join().unwrap().unwrap()
    });
    let bytes: u64 = bytes.sum();
    println!("{served} requests served, next to {bytes} bytes of answers to the greedy");
    // leafd answers some hundred requests of a connection at a time, so the modest client is served
    // in between.
    assert!(served > 10, "{served}");
    let peak = peak_mib(&daemon);
    assert!(peak < 60, "{peak} MiB");
    daemon.stop();
}

#[test]
fn a_client_that_asks_for_as_much_as_it_can_is_served_or_refused_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let mut raw = Raw::greeted(&home.socket());
    let asked = frame(5, segment("greedy", 100_000, 0)).repeat(3000);
    let mut writer = raw.stream().try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&asked).unwrap());
    let (mut served, mut refused) = (0, 0);
    while served + refused < 3000 {
        match raw.receive().unwrap().reply {
            Reply::Ids { .. } => served += 1,
            Reply::Error(error) => {
                assert_eq!(error.code(), ErrorCode::TooManyInFlight, "{error}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    writing.join().unwrap();
    println!("{served} served, {refused} refused");
    assert!(served >= 1024, "{served}");
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn a_client_that_asks_for_more_snowflakes_than_can_be_made_does_not_delay_others() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let mut raw = Raw::greeted(&home.socket());
    // In order of arrival, these would take a quarter of a minute.
    let call = Call::Snowflake { count: 100_000, timeout_ms: 3000 };
    raw.send(&frame(5, call).repeat(600));
    let (mut served, mut refused) = (0, 0);
    while served + refused < 600 {
        match raw.receive().unwrap().reply {
            Reply::Ids { .. } => served += 1,
            Reply::Error(error) => {
                assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{served} served, {refused} refused");
    others.noticed_nothing();
    daemon.stop();
}
