//! HTTP as callers see it: Java Leaf's routes to the letter, leafd's own API, and health. Every answer is
//! checked against the OpenAPI document.

use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_tests::PATIENCE;
use leafd_tests::daemon::Home;
use leafd_tests::http::HttpPlace;
use leafd_tests::openapi;
use serde_json::{Value, json};

/// A daemon that serves HTTP by TCP.
fn serving(folder: &std::path::Path) -> (leafd_tests::Daemon, HttpPlace) {
    let daemon = Home::new(folder).with_time_for_the_disk().with_http().start();
    let place = HttpPlace::of(daemon.home());
    (daemon, place)
}

#[test]
fn java_leafs_routes_answer_the_bare_decimal_id() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    let mut client = place.connect();
    for expected in 1..=3 {
        let answer = client.get("/api/segment/get/orders").expect(200);
        assert_eq!(answer.text(), expected.to_string());
        assert_eq!(answer.header("content-type"), Some("text/plain;charset=UTF-8"));
    }
    assert_eq!(daemon.client().next("orders").unwrap(), 4, "the socket and HTTP share the tag");
    // Java Leaf asks for a key here and does not look at it.
    let ids: Vec<u64> = ["orders", "x", "%2F"]
        .map(|key| client.get(&format!("/api/snowflake/get/{key}")).expect(200))
        .iter()
        .map(|answer| answer.text().parse().unwrap())
        .collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    let id = ids[0];
    let parts = client.get(&format!("/decodeSnowflakeId?snowflakeId={id}")).expect(200).json();
    let ms = (id >> 22) + 1_288_834_974_657;
    assert_eq!(parts["workerId"], (id >> 12 & 1023).to_string());
    assert_eq!(parts["sequenceId"], (id & 4095).to_string());
    let time = parts["timestamp"].as_str().unwrap();
    assert!(time.starts_with(&format!("{ms}(20")) && time.ends_with(')'), "{time}");
    // 1234567890123(2009-02-13 23:31:30.123)
    assert_eq!(time.len(), 13 + "(2009-02-13 23:31:30.123)".len(), "{time}");
    daemon.stop();
}

#[test]
fn java_leafs_routes_answer_failures_honestly_or_as_java_leaf_does() {
    for (as_leaf, unknown, off) in [("false", 404, 501), ("true", 500, 200)] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path())
            .with_time_for_the_disk()
            .with_http()
            .with("SEGMENT_AUTO_CREATE", "false")
            .with("SNOWFLAKE_ENABLED", "false")
            .with("HTTP_LEAF_ERRORS", as_leaf);
        let daemon = home.start();
        let place = HttpPlace::of(&home);
        place.get("/api/segment/get/orders").expect_error(unknown, "UnknownTag");
        let answer = place.get("/api/snowflake/get/orders").expect(off);
        if off == 200 {
            assert_eq!(answer.text(), "0");
        } else {
            assert_eq!(answer.json()["code"], 207);
        }
        for bad in ["%00", "%zz"] {
            let refused = place.get(&format!("/api/segment/get/{bad}"));
            refused.expect_error(if as_leaf == "true" { 500 } else { 400 }, "BadTag");
        }
        assert_eq!(place.get("/api/segment/get/").status, 404);
        // The path of the page and of foreign pages stays as it is.
        assert_eq!(
            place.connect().ask("GET", "/api/segment/get/x", "Origin: null\r\n").status,
            403
        );
        daemon.stop();
    }
}

#[test]
fn java_leafs_decoding_ignores_other_parameters_and_says_as_java_leaf_that_it_cannot() {
    for as_leaf in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path())
            .with_time_for_the_disk()
            .with_http()
            .with("HTTP_LEAF_ERRORS", if as_leaf { "true" } else { "false" });
        let daemon = home.start();
        let place = HttpPlace::of(&home);
        let decode = |query: &str| place.get(&format!("/decodeSnowflakeId?{query}"));
        // Such as a parameter that keeps caches away.
        let parts = decode("_=1700000000000&snowflakeId=4194304").expect(200).json();
        assert_eq!(parts["timestamp"], "1288834974658(2010-11-04 01:42:54.658)");
        for nonsense in [
            "snowflakeId=x",
            "snowflakeId=",
            "snowflakeId=-",
            "snowflakeId=1.0",
            "snowflakeId=9223372036854775808",
            "snowflakeId=100000000000000000000",
            "snowflakeId=%ff",
            "snowflakeId=1&snowflakeId=2",
        ] {
            let answer = decode(nonsense);
            if as_leaf {
                let expected = json!({ "errorMsg": "snowflake Id反解析发生异常!" });
                assert_eq!(answer.expect(200).json(), expected, "{nonsense}");
            } else {
                answer.expect(400);
            }
        }
        // Both refuse to guess.
        decode("").expect(400);
        decode("snowflakeid=1").expect(400);
        daemon.stop();
    }
}

#[test]
fn a_tag_may_have_any_name_in_percent_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    let mut client = place.connect();
    for (encoded, tag) in [
        ("a%2Fb", "a/b"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("%C3%BC", "ü"),
        ("%e4%b8%ad", "中"),
        ("100%25", "100%"),
        ("a%3Fb%23c", "a?b#c"),
        ("%25zz", "%zz"),
    ] {
        assert_eq!(client.get(&format!("/api/segment/get/{encoded}")).expect(200).text(), "1");
        assert_eq!(daemon.client().next(tag).unwrap(), 2, "{tag}");
    }
    for broken in ["%C3", "%ff", "a%e4%b8", "%zz", "%", "%2", "100%"] {
        client.get(&format!("/api/segment/get/{broken}")).expect_error(400, "BadTag");
        for (method, path, document) in [
            ("POST", format!("/v1/segment/{broken}"), ""),
            ("PATCH", format!("/v1/tags/{broken}"), "{\"step\": 1}"),
            ("DELETE", format!("/v1/tags/{broken}"), ""),
        ] {
            client.send(method, &path, document).expect_error(400, "BadTag");
        }
        client.get(&format!("/v1/tags/{broken}")).expect_error(400, "BadTag");
    }
    let tags = daemon.client().tags_used("", 100).unwrap();
    assert!(tags.iter().all(|tag| tag.tag != "%" && tag.tag != "%2"), "{tags:?}");
    for control in ["%00", "a%0Ab", "%7F"] {
        client.get(&format!("/api/segment/get/{control}")).expect_error(400, "BadTag");
    }
    client.get(&format!("/api/segment/get/{}", "x".repeat(129))).expect_error(400, "BadTag");
    client.get("/api/segment/get/a/b").expect(404);
    daemon.stop();
}

#[test]
fn one_and_many_ids_of_both_schemes_are_unique_strings() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    let mut client = place.connect();
    let mut seen = HashSet::new();
    for (path, count) in [
        ("/v1/segment/orders", 1),
        ("/v1/segment/orders?count=1000", 1000),
        ("/v1/segment/orders?count=3&timeout=10s&as=decimal", 3),
        ("/v1/snowflake", 1),
        ("/v1/snowflake?count=1000", 1000),
    ] {
        let answer = client.send("POST", path, "").expect(200).json();
        let ids = answer["ids"].as_array().unwrap();
        assert_eq!(ids.len(), count, "{path}");
        assert!(ids.iter().all(|id| seen.insert(id.as_str().unwrap().to_owned())), "{path}");
    }
    for count in ["0", "-1", "1001", "100000000000000000000", "", "x", "1.5", "+1", "%31%30%30%31"]
    {
        for path in ["/v1/segment/orders", "/v1/snowflake"] {
            let answer = client.send("POST", &format!("{path}?count={count}"), "{}");
            assert_eq!(answer.expect_error(400, "BadCount").json()["limit"], "1000");
        }
    }
    for wrong in
        ["?timeout=soon", "?as=hex", "?as=uuid7", "?other=1", "?count=1&count=1", "?timeout=-1s"]
    {
        client.send("POST", &format!("/v1/segment/orders{wrong}"), "").expect(400);
    }
    client.send("POST", "/v1/segment/orders", "{\"count\":5}").expect(400);
    daemon.stop();
}

#[test]
fn an_id_is_taken_apart_by_the_layout_of_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("SNOWFLAKE_LAYOUT", "twitter");
    let daemon = home.with("WORKER_ID", "37").start();
    let place = HttpPlace::of(daemon.home());
    let id = place.send("POST", "/v1/snowflake", "").expect(200).json()["ids"][0].clone();
    let parts = place.get(&format!("/v1/decode/{}", id.as_str().unwrap())).expect(200).json();
    assert_eq!(
        (&parts["id"], &parts["worker"], &parts["datacenter"]),
        (&id, &json!(37), &json!(1))
    );
    assert_eq!(parts["layout"], "41/5+5/12@1288834974657/1ms");
    for wrong in ["x", "-1", "9223372036854775808", "18446744073709551616", "1.5", "%31x"] {
        place.get(&format!("/v1/decode/{wrong}")).expect(400);
    }
    place.get("/decodeSnowflakeId?snowflakeId=9223372036854775808").expect(400);
    daemon.stop();
}

#[test]
fn root_administers_tags_on_the_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk().with_http_socket();
    let daemon = home.start();
    let mut client = HttpPlace::Socket(home.http_socket()).connect();
    let new = json!({ "tag": "a/b", "step": 50, "first": "9007199254740993", "description": "x" });
    let made = client.send("POST", "/v1/tags", &new.to_string()).expect(201);
    assert_eq!(made.header("location"), Some("/v1/tags/a%2Fb"));
    assert_eq!(made.json()["max_id"], "9007199254740993");
    client.send("POST", "/v1/tags", &new.to_string()).expect_error(409, "TagExists");
    let id = client.send("POST", "/v1/segment/a%2Fb", "").expect(200).json()["ids"][0].clone();
    assert_eq!(id, "9007199254740993", "no digit is lost");
    let shown = client.get("/v1/tags/a%2Fb").expect(200).json();
    assert_eq!((&shown["row_step"], &shown["description"]), (&json!(50), &json!("x")));
    let changed = client.send("PATCH", "/v1/tags/a%2Fb", "{\"step\":70}").expect(200).json();
    assert_eq!(changed["row_step"], 70);
    client.send("PATCH", "/v1/tags/a%2Fb", "{\"step\":0}").expect_error(400, "BadStep");
    client.send("PATCH", "/v1/tags/none", "{\"step\":5}").expect_error(404, "UnknownTag");
    for number in 0..5 {
        client.send("POST", "/v1/tags", &format!("{{\"tag\":\"t{number}\"}}")).expect(201);
    }
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.get(&format!("/v1/tags?limit=2&after={after}")).expect(200).json();
        names.extend(page["tags"].as_array().unwrap().iter().map(|tag| tag["tag"].clone()));
        match &page["next"] {
            Value::String(next) => after = next.replace('/', "%2F"),
            _ => break,
        }
    }
    assert_eq!(names, ["a/b", "t0", "t1", "t2", "t3", "t4"]);
    let used = client.get("/v1/tags?used=true").expect(200).json();
    assert!(used["tags"].as_array().unwrap().iter().any(|tag| tag["tag"] == "a/b"), "{used}");
    for wrong in ["limit=0", "limit=101", "limit=x", "used=maybe"] {
        client.get(&format!("/v1/tags?{wrong}")).expect(400);
    }
    client.send("DELETE", "/v1/tags/t4", "").expect(200);
    client.get("/v1/tags/t4").expect_error(404, "UnknownTag");
    client.get("/v1/workers").expect_error(501, "NotConfigured");
    let owner = "{\"owner\":\"somebody\"}";
    client.send("POST", "/v1/workers/7/release", owner).expect_error(501, "NotConfigured");
    daemon.stop();
}

#[test]
fn documents_that_are_not_those_of_the_call_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk().with_http_socket();
    let daemon = home.start();
    let mut client = HttpPlace::Socket(home.http_socket()).connect();
    let deep = format!("{}{}", "[".repeat(8000), "]".repeat(8000));
    for document in [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"tag\":\"x\",\"tag\":\"y\"}",
        "{\"tag\":\"x\",\"steps\":1}",
        "{\"tag\":7}",
        "{\"tag\":\"x\",\"step\":-1}",
        "{\"tag\":\"x\",\"step\":100000000000000000000}",
        "{\"tag\":\"x\",\"step\":1.5}",
        "{\"tag\":\"x\",\"first\":\"-1\"}",
        "{\"tag\":\"x\",\"first\":18446744073709551616}",
        "{\"tag\":\"x\"} x",
        "{\"step\":1}",
        "[\"x\"]",
        "[\"x\",5,\"1\",\"\"]",
        &deep,
        &format!("{{\"tag\":{deep}}}"),
    ] {
        client.send("POST", "/v1/tags", document).expect(400);
    }
    client.send("PATCH", "/v1/tags/x", "[5]").expect(400);
    client.send("POST", "/v1/tags", "{\"tag\":\"\"}").expect_error(400, "BadTag");
    let page = client.get("/v1/tags").expect(200).json();
    assert_eq!(page["tags"], json!([]), "nothing was made");
    daemon.stop();
}

#[test]
fn the_status_over_http_is_that_of_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    let before = daemon.client().status().unwrap();
    let found = place.get("/v1/status").expect(200).json();
    assert_eq!(found["daemon"]["pid"], before.pid);
    assert_eq!(found["daemon"]["state_dir"], before.state_dir);
    assert_eq!(found["snowflake"]["worker"], before.snowflake.worker.unwrap());
    assert_eq!(found["snowflake"]["state"], "serving");
    let _ = place.leaf_id("orders");
    let after = daemon.client().status().unwrap();
    assert_eq!(after.requests, before.requests + 1, "requests for IDs over HTTP count");
    daemon.stop();
}

#[test]
fn a_head_takes_no_id_and_other_methods_are_refused_with_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    assert_eq!(place.leaf_id("orders"), 1);
    for path in ["/api/segment/get/orders", "/v1/segment/orders"] {
        for method in ["HEAD", "OPTIONS", "PUT", "TRACE"] {
            let headers = "Content-Type: application/json\r\n";
            let answer = place.connect().ask(method, path, headers);
            assert_eq!(answer.status, 405, "{method} {path}");
            assert!(answer.header("allow").is_some_and(|allow| !allow.contains(method)));
            assert!(answer.header("access-control-allow-origin").is_none());
        }
    }
    for path in ["/livez", "/openapi.json", "/v1/status"] {
        let answer = place.connect().ask("HEAD", path, "");
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
    }
    assert_eq!(place.leaf_id("orders"), 2);
    daemon.stop();
}

#[test]
fn a_waiting_request_is_served_when_the_store_is_back_and_a_late_one_gets_503() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("SEGMENT_WAIT", "1m");
    home.break_store();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let late = place.send("POST", "/v1/segment/orders?timeout=50ms", "");
    let late = late.expect(503).json();
    assert!([302, 308].contains(&late["code"].as_u64().unwrap()), "{late}");
    let waiting = std::thread::spawn({
        let place = place.clone();
        move || place.leaf_id("orders")
    });
    // Other requests on other connections go on meanwhile.
    let began = Instant::now();
    while place.get("/v1/status").json()["segments"]["waiting"] != 1 {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    place.get("/api/snowflake/get/x").expect(200);
    place.get("/livez").expect(200);
    let answer = place.get("/readyz").expect(503).json();
    assert!(answer["detail"].as_str().unwrap().contains("requests wait for a store that fails"));
    home.repair_store();
    assert_eq!(waiting.join().unwrap(), 1);
    let began = Instant::now();
    while place.get("/readyz").status != 200 {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.stop();
}

#[test]
fn a_client_that_hangs_up_withdraws_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("SEGMENT_WAIT", "1m");
    home.break_store();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut gone = place.connect();
    gone.send_raw(b"GET /api/segment/get/orders HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = |expected: u64| {
        let began = Instant::now();
        while place.get("/v1/status").json()["segments"]["waiting"] != expected {
            assert!(began.elapsed() < PATIENCE, "{expected}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    waiting(1);
    drop(gone);
    waiting(0);
    daemon.stop();
}

#[test]
fn the_openapi_document_is_served_as_it_is_and_refers_to_nothing_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, place) = serving(folder.path());
    assert_eq!(&place.get("/openapi.json").expect(200).json(), openapi::document());
    daemon.stop();
    let document = openapi::document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = HashSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(operations.insert(name.to_owned()), "{name} is there twice");
            assert!(operation["summary"].is_string(), "{method} {path}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path: Vec<_> = parameters.iter().filter(|one| one["in"] == "path").collect();
            assert_eq!(path.matches('{').count(), in_path.len(), "{method} {path}");
            for parameter in in_path {
                let name = parameter["name"].as_str().unwrap();
                assert!(path.contains(&format!("{{{name}}}")) && parameter["required"] == true);
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = openapi::resolved(response);
                assert!(response["description"].is_string(), "{method} {path} {status}");
                assert!(status.parse::<u16>().is_ok(), "{status}");
            }
        }
    }
    references(document);
}

/// Follows every reference.
fn references(value: &Value) {
    match value {
        Value::Object(members) => {
            let _ = openapi::resolved(value);
            members.values().for_each(references);
        }
        Value::Array(items) => items.iter().for_each(references),
        _ => {}
    }
}

#[test]
fn a_start_without_http_says_how_to_turn_it_on_and_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let log = home.log().wait_for("HTTP is off");
    let line = log.lines().last().unwrap();
    let setting = line.split(' ').find(|word| word.starts_with("LEAFD_HTTP_LISTEN="));
    assert_eq!(setting, Some("LEAFD_HTTP_LISTEN=127.0.0.1:8736"), "{line}");
    daemon.stop();
    let home = home.with_http();
    let daemon = home.start();
    let log = home.log().wait_for("serving HTTP; try: curl ");
    home.log().wait_for("every user of this host may get IDs and nobody may administer");
    let (_, url) = log.split_once("try: curl ").unwrap();
    let url = url.split_whitespace().next().unwrap();
    let output = Command::new("curl").args(["--silent", "--fail", url]).output().expect("curl");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1");
    daemon.stop();
}

#[test]
fn a_port_that_is_taken_ends_the_start_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new(folder.path()).with("HTTP_LISTEN", &address);
    let (code, _, text) = home.run("leafd", &[]);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(&address) && text.contains("http.listen"), "{text}");
    assert!(!home.socket().exists(), "the other socket is gone");
}
