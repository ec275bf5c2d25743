//! The stream of events behind the page: what it says, how many there may be, and when it ends.

use std::path::Path;

use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use leafd_tests::http::{HttpClient, HttpPlace};
use leafd_tests::openapi;
use leafd_tests::watch::{Bystanders, resident_kib};
use nix::sys::signal::Signal;
use serde_json::Value;

fn home(folder: &Path) -> Home {
    Home::new(folder).with_time_for_the_disk().with_http()
}

fn open(place: &HttpPlace, query: &str) -> HttpClient {
    let mut client = place.connect();
    client
        .send_raw(format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    client
}

/// The data of the next event of this name.
fn next_event(client: &mut HttpClient, name: &str) -> Value {
    client.wait_for(&format!("event: {name}\ndata: "));
    let data = client.wait_for("\n\n");
    serde_json::from_str(data.trim_end()).unwrap_or_else(|error| panic!("{error}: {data}"))
}

fn fits(schema: &str, value: &Value) {
    let schemas = &openapi::document()["components"]["schemas"];
    openapi::fits(&schemas[schema], value, "#").unwrap_or_else(|why| panic!("{why}\n{value}"));
}

#[test]
fn a_stream_tells_the_status_and_the_tags_as_they_change_and_ends_with_leafd() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let id = place.leaf_id("orders");
    let mut stream = open(&place, "?search=RDER");
    let head = stream.wait_for("\r\n\r\n").to_lowercase();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    let view = next_event(&mut stream, "view");
    fits("View", &view);
    assert_eq!(view["matching"], 1);
    assert_eq!(view["tags"][0]["position"], (id + 1).to_string());
    let fleet = next_event(&mut stream, "workers");
    fits("Fleet", &fleet);
    assert!(
        fleet["error"].as_str().unwrap().contains("no"),
        "a fixed worker has no fleet: {fleet}"
    );
    let _ = place.leaf_id("bills");
    let id = place.leaf_id("orders");
    loop {
        let view = next_event(&mut stream, "view");
        fits("View", &view);
        assert_eq!(view["tags"].as_array().unwrap().len(), 1, "bills does not match");
        if view["tags"][0]["position"].as_str() == Some(&(id + 1).to_string()) {
            break;
        }
    }
    daemon.stop();
    let rest = String::from_utf8(stream.rest()).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream ends as a whole: {rest:?}");
}

#[test]
fn a_view_names_the_worst_of_all_tags_whatever_it_searches_for() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    for tag in ["bills", "orders"] {
        let _ = place.leaf_id(tag);
    }
    home.sql("UPDATE leaf_alloc SET step = -1 WHERE biz_tag = 'orders'");
    let mut client = daemon.client();
    // More than half of the range, so that leafd leases another, which fails.
    client.next_many("orders", 900).unwrap();
    let mut stream = open(&place, "?search=bills&limit=1");
    loop {
        // Otherwise the tag counts as unused after some seconds.
        let _ = client.next("orders");
        let view = next_event(&mut stream, "view");
        fits("View", &view);
        assert_eq!(view["matching"], 1);
        if view["failing"] == 1 && view["lowest"]["tag"] == "orders" {
            break;
        }
    }
    let mut sorted = open(&place, "?sort=failing&descending=true");
    assert_eq!(next_event(&mut sorted, "view")["tags"][0]["tag"], "orders");
    daemon.stop();
}

#[test]
fn streams_are_bounded_and_whoever_comes_later_gets_one_view() {
    const STREAMS: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| open(&place, "")).collect();
    for stream in &mut streams {
        next_event(stream, "view");
    }
    let late = || String::from_utf8(open(&place, "").rest()).unwrap();
    let text = late();
    assert!(text.contains("event: view") && text.contains("event: pause"), "{text}");
    drop(streams.pop());
    wait_until(&home, "the place is free again", || {
        let mut stream = open(&place, "");
        next_event(&mut stream, "view");
        let rest = stream.wait_for("event: ");
        let next = stream.wait_for("\n");
        !format!("{rest}{next}").contains("pause") && {
            drop(stream);
            true
        }
    });
    for stream in &mut streams {
        next_event(stream, "view");
    }
    assert_eq!(place.get("/livez").expect(200).text(), "leafd answers\n");
    daemon.stop();
}

#[test]
fn a_page_that_stops_reading_is_closed_and_costs_neither_memory_nor_anybody_else() {
    const STALLED: u64 = 15;
    /// For events that are unread, in all streams together: those of a few seconds.
    const MOST_KIB: u64 = 16 * 1024;
    let folder = tempfile::tempdir().unwrap();
    // On a Unix socket, little fits between leafd and a client that reads nothing.
    let home = home(folder.path()).with_http_socket().with("HTTP_WRITE_TIMEOUT", "1s");
    let daemon = home.start();
    let mut client = daemon.client();
    for number in 0..100 {
        client.next(&format!("{number:03}-{}", "x".repeat(120))).unwrap();
    }
    let place = HttpPlace::Socket(home.http_socket());
    let bystanders = Bystanders::of(&home);
    let mut reader = open(&place, "");
    next_event(&mut reader, "view");
    let others = client.status().unwrap().connections;
    let before = resident_kib(&daemon);
    let mut stalled: Vec<_> = (0..STALLED).map(|_| open(&place, "?limit=100")).collect();
    for stream in &mut stalled {
        next_event(stream, "view");
    }
    let mut most = before;
    wait_until(&home, "leafd closes the streams that nobody reads", || {
        next_event(&mut reader, "view");
        most = most.max(resident_kib(&daemon));
        client.status().unwrap().connections <= others
    });
    for stream in &mut stalled {
        let rest = stream.rest();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "a stream that is cut off is not a whole one");
    }
    println!("{before} KiB, at most {most} KiB with {STALLED} stalled streams");
    assert!(most <= before + MOST_KIB, "{before} KiB, then {most} KiB");
    // Their places are free.
    let mut late = open(&place, "");
    for _ in 0..2 {
        next_event(&mut late, "view");
        next_event(&mut reader, "view");
    }
    bystanders.noticed_nothing();
    daemon.stop();
}

#[test]
fn a_reload_that_takes_the_right_away_ends_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leafd.toml");
    let rule = |page| {
        let text = format!("[[access.rules]]\nname = \"web\"\nhttp = true\npage = {page}\n");
        std::fs::write(&file, text).unwrap();
    };
    rule(true);
    let home = home(folder.path()).with("CONFIG", file.to_str().unwrap());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut stream = open(&place, "");
    next_event(&mut stream, "view");
    rule(false);
    daemon.send(Signal::SIGHUP);
    home.log().wait_for("configuration reloaded");
    let rest = String::from_utf8(stream.rest()).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
    let refused = place.get("/v1/events").expect_error(403, "Forbidden");
    assert!(refused.text().contains("rule \\\"web\\\" does not allow it"), "{}", refused.text());
    // The page itself is for everybody: it says why it shows nothing.
    assert_eq!(place.get("/").expect(200).header("content-type"), Some("text/html;charset=UTF-8"));
    daemon.stop();
}

#[test]
fn a_search_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let long = format!("search={}", "x".repeat(129));
    for wrong in [
        "sort=size",
        "descending=yes",
        "limit=0",
        "limit=101",
        "page=0",
        "page=18446744073709551615",
        "page=202&limit=50",
        "after=x",
        &long,
    ] {
        place.get(&format!("/v1/events?{wrong}")).expect(400);
    }
    place.connect().ask("HEAD", "/v1/events", "").expect(405);
    daemon.stop();
}
