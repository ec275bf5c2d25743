//! Mutated requests by HTTP. Every byte that leafd answers is read and checked; its memory stays bounded,
//! and the applications' socket serves meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use leafd_tests::daemon::Home;
use leafd_tests::http::{HttpAnswer, HttpPlace, answers_in};
use leafd_tests::long::short_or_long;
use leafd_tests::watch::{Bystanders, peak_mib};

/// Requests to begin a mutation with.
fn seeds() -> Vec<Vec<u8>> {
    let json = "Host: localhost\r\nContent-Type: application/json\r\n";
    [
        format!("GET /api/segment/get/orders HTTP/1.1\r\n{json}\r\n"),
        "GET /api/snowflake/get/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\r\n".into(),
        format!("POST /v1/segment/a%2Fb?count=3&timeout=1ms HTTP/1.1\r\n{json}Content-Length: 2\r\n\r\n{{}}"),
        format!("POST /v1/tags HTTP/1.1\r\n{json}Content-Length: 24\r\n\r\n{{\"tag\":\"x\",\"first\":\"17\"}}"),
        format!("PATCH /v1/tags/x HTTP/1.1\r\n{json}Transfer-Encoding: chunked\r\n\r\na\r\n{{\"step\":5}}\r\n0\r\n\r\n"),
        "GET /v1/tags?after=x&limit=5&used=true HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://[::1]:80\r\n\r\n".into(),
        "GET /v1/decode/1234567890123456789 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n".into(),
        "HEAD /livez HTTP/1.0\r\n\r\n".into(),
        format!("POST /v1/workers/7/release HTTP/1.1\r\n{json}Expect: 100-continue\r\nContent-Length: 13\r\n\r\n{{\"owner\":\"x\"}}"),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Parts that are worth inserting.
const PARTS: [&[u8]; 22] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"%00",
    b"%2F",
    b"%",
    b"+",
    b"?count=100000000000000000000",
    b"&count=0",
    b"Content-Length: 5\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Host: localhost\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"[[[[[[[[",
    b"\xff\xfe",
    b"\xe2\x82",
    b"ffffffff\r\n",
];

fn mutated(random: &mut fastrand::Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.usize(..seeds.len())].clone();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=bytes.len());
        match random.u8(..7) {
            0 if at < bytes.len() => bytes[at] = random.u8(..),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            2 => drop(bytes.drain(at..(at + random.usize(..20)).min(bytes.len()))),
            3 => {
                let part = PARTS[random.usize(..PARTS.len())];
                bytes.splice(at..at, part.iter().copied());
            }
            4 => bytes.extend(seeds[random.usize(..seeds.len())].clone()),
            5 => {
                let part: Vec<u8> = bytes[at..(at + 30).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes.truncate(20_000);
    bytes
}

/// Ends a connection whose requests were whole. What comes after half a request belongs to it.
const LAST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The most memory that leafd may ever take, in MiB. At rest, a debug build takes 25.
const MOST_MIB: u64 = 100;

/// Sends bytes on a connection of its own, and returns leafd's answers up to the end of the connection.
fn answers(place: &HttpPlace, bytes: &[u8]) -> Vec<HttpAnswer> {
    let mut client = place.connect();
    client.send_raw(bytes);
    client.send_raw(LAST);
    let received = client.rest();
    // The answer to `HEAD` has the length of a body, but no body.
    let has_head = bytes.windows(4).any(|part| part == b"HEAD");
    answers_in(&received, has_head).unwrap_or_else(|why| {
        let (asked, got) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&received));
        panic!("{why}: {asked:?} got {got:?}")
    })
}

/// Asserts that an answer must not be kept, and that a refusal is a problem document.
fn is_proper(answer: &HttpAnswer, bytes: &[u8]) {
    let what = || format!("{answer:?} to {:?}", String::from_utf8_lossy(bytes));
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", what());
    assert!((200..600).contains(&answer.status), "{}", what());
    if answer.status >= 400 && !answer.body.is_empty() {
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{}", what());
        assert_eq!(answer.json()["status"], answer.status, "{}", what());
    }
}

#[test]
fn mutated_requests_get_proper_answers_or_a_close_and_cost_nobody_else_anything() {
    // Requests that are cut short wait for their end, so many are under way at a time.
    let threads: u64 = short_or_long(32, 128);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with_time_for_the_disk()
        .with_http()
        .with("HTTP_REQUEST_TIMEOUT", "100ms")
        .with("SEGMENT_MAX_TAGS", "1000");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let seed = std::env::var("LEAF_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("LEAF_FUZZ_SEED={seed}");
    let total: u64 = short_or_long(3200, 1_000_000);
    let bystanders = Bystanders::of(&home);
    let (answered, served, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (place, answered, served, refused) = (&place, &answered, &served, &refused);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ thread);
                let seeds = seeds();
                for _ in 0..total / threads {
                    let bytes = mutated(&mut random, &seeds);
                    let found = answers(place, &bytes);
                    found.iter().for_each(|answer| is_proper(answer, &bytes));
                    answered.fetch_add(u64::from(!found.is_empty()), Ordering::Relaxed);
                    let good = found.iter().filter(|answer| answer.status < 300).count() as u64;
                    served.fetch_add(good, Ordering::Relaxed);
                    refused.fetch_add(found.len() as u64 - good, Ordering::Relaxed);
                }
            });
        }
    });
    bystanders.noticed_nothing();
    let (answered, peak) = (answered.into_inner(), peak_mib(&daemon));
    let [served, refused] = [served, refused].map(AtomicU64::into_inner);
    println!(
        "{total} mutations, {answered} with an answer: {served} served, {refused} refused; peak {peak} MiB"
    );
    assert!(answered > total / 2 && served > total / 10 && refused > total / 10);
    assert!(peak <= MOST_MIB, "{peak} MiB");
    assert!(place.leaf_id("orders") > 0);
    let ended = daemon.stop();
    assert_eq!(ended.count("panicked"), 0, "{ended}");
}
