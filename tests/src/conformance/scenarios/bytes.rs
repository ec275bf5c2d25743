//! Encoding and decoding, without a daemon.

use leaf_client::wire::ErrorCode;
use serde_json::{Value, json};

use super::{Scenario, scenario};
use crate::binaries::workspace;
use crate::conformance::answer::Answer;
use crate::conformance::driver::Line;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario(
        "requests",
        "Every request of `vectors.json` is encoded to exactly its bytes",
        requests_are_encoded,
    ),
    scenario(
        "responses",
        "Every response of `vectors.json` is decoded to exactly its fields",
        responses_are_decoded,
    ),
    scenario("cut_short", "A response that is cut short anywhere is refused", cut_short),
    scenario("left_over", "A response with a byte too many is refused", left_over),
    scenario(
        "undecodable",
        "Unknown replies, wrong option bytes, invalid UTF-8 and absurd lengths are refused",
        undecodable,
    ),
    scenario("errors", "Every error has its number, its name and its class", errors),
    scenario("layouts", "IDs of every layout are taken apart without losing a bit", layouts),
];

/// Replies that a client which never asks for them may refuse like any unknown one.
const LATER: [&str; 4] = ["Loan", "Forecasts", "PublicIds", "PublicNumbers"];

/// Messages that a client may lack.
const ADMINISTRATION: [&str; 17] = [
    "TagList",
    "TagShow",
    "TagCreate",
    "TagSetStep",
    "TagDelete",
    "TagsUsed",
    "WorkerList",
    "WorkerRelease",
    "WorkerBorrow",
    "WorkerReturn",
    "PoolList",
    "PoolRelease",
    "TagForecasts",
    "PublicEncode",
    "PublicDecode",
    "Tags",
    "Workers",
];

fn vectors(direction: &str) -> Vec<Value> {
    let text = std::fs::read(workspace().join("protocol/vectors.json")).expect("the vectors");
    let all: Value = serde_json::from_slice(&text).expect("JSON");
    let all = all["vectors"].as_array().expect("a list").iter();
    let found: Vec<_> = all.filter(|vector| vector["direction"] == direction).cloned().collect();
    assert!(found.len() > 8, "only {} vectors", found.len());
    found
}

fn hex_of(vector: &Value) -> String {
    let lines = vector["hex"].as_array().expect("a list").iter();
    lines.map(|line| line.as_str().expect("hex").replace(' ', "")).collect()
}

fn bytes_of(vector: &Value) -> Vec<u8> {
    let hex = hex_of(vector);
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the client lacks the message, which only administrative ones allow.
fn lacks(value: &Value, message: &Value) -> bool {
    let lacks = value["unsupported"] == true;
    let may = ADMINISTRATION.iter().any(|name| message == name);
    assert!(!lacks || may, "every client has {message}");
    lacks
}

fn requests_are_encoded(stage: &mut Stage<'_>) {
    let (mut known, mut all) = (0, 0);
    for vector in vectors("request") {
        let message = &vector["message"];
        let (id, fields) = (&vector["id"], &vector["fields"]);
        let fields = json!({"message": message, "request_id": id, "fields": fields});
        let answer = stage.ask("encode", fields).ok();
        all += 1;
        if !lacks(&answer, message) {
            known += 1;
            assert_eq!(answer["hex"], json!(hex_of(&vector)), "{}", vector["name"]);
        }
    }
    stage.note(format!("{known} of {all} requests are in the client"));
}

fn responses_are_decoded(stage: &mut Stage<'_>) {
    let (mut known, mut all) = (0, 0);
    for vector in vectors("response") {
        let (name, message) = (&vector["name"], &vector["message"]);
        let answer = stage.ask("decode_response", json!({"hex": hex_of(&vector)}));
        all += 1;
        let answer = match answer {
            failed @ Answer::Failed(_) if LATER.iter().any(|name| message == name) => {
                failed.breaks_the_protocol();
                continue;
            }
            other => other.ok(),
        };
        if lacks(&answer, message) {
            continue;
        }
        known += 1;
        assert_eq!(answer["message"], *message, "{name}");
        assert_eq!(answer["request_id"], vector["id"], "{name}");
        assert_eq!(answer["fields"], vector["fields"], "{name}");
    }
    stage.note(format!("{known} of {all} responses are in the client"));
}

/// Has many frames decoded. None may decode.
fn none_decodes(stage: &mut Stage<'_>, frames: Vec<(String, Vec<u8>, bool)>) {
    // Some at a time: neither side of a pipe may fill up.
    for some in frames.chunks(32) {
        let lines: Vec<(&str, bool, Line)> = some
            .iter()
            .map(|(what, frame, may_lack)| {
                let line = stage.send("decode_response", json!({"hex": hex(frame)}));
                (what.as_str(), *may_lack, line)
            })
            .collect();
        for (what, may_lack, line) in lines {
            match stage.wait(line) {
                Answer::Ok(value) => {
                    let lacks = may_lack && value["unsupported"] == true;
                    assert!(lacks, "it decodes {what}: {value}");
                }
                failed @ Answer::Failed(_) => failed.breaks_the_protocol(),
            }
        }
    }
}

fn cut_short(stage: &mut Stage<'_>) {
    let mut cut = Vec::new();
    for vector in vectors("response") {
        let may_lack = ADMINISTRATION.iter().any(|name| vector["message"] == *name);
        let frame = bytes_of(&vector);
        for len in 0..frame.len() - 4 {
            let what = format!("{}, whose body ends after {len} bytes", vector["name"]);
            cut.push((what, frames::frame(&frame[4..4 + len]), may_lack));
        }
        // The header announces more than there is.
        let what = format!("{} without its last byte", vector["name"]);
        cut.push((what, frame[..frame.len() - 1].to_vec(), may_lack));
    }
    none_decodes(stage, cut);
}

fn left_over(stage: &mut Stage<'_>) {
    let with_more = vectors("response").into_iter().map(|vector| {
        let may_lack = ADMINISTRATION.iter().any(|name| vector["message"] == *name);
        let body = [&bytes_of(&vector)[4..], &[0]].concat();
        (format!("{} and a byte", vector["name"]), frames::frame(&body), may_lack)
    });
    let with_more = with_more.collect();
    none_decodes(stage, with_more);
}

/// The body of a response: ID 7, the number of the reply, and its fields.
fn body(reply: u32, fields: &[&[u8]]) -> Vec<u8> {
    [&7u64.to_le_bytes(), reply.to_le_bytes().as_slice(), &fields.concat()].concat()
}

fn undecodable(stage: &mut Stage<'_>) {
    let none = 0u64.to_le_bytes();
    let huge = u64::MAX.to_le_bytes();
    let run = [1u64.to_le_bytes().as_slice(), &1u32.to_le_bytes()].concat();
    let error = [302u16.to_le_bytes().as_slice(), &0u32.to_le_bytes(), &none].concat();
    let status = vectors("response");
    let status = status.iter().find(|vector| vector["name"] == "page-status-reply");
    let mut frames = vec![
        ("an unknown reply", body(12, &[])),
        ("a reply of number 2^32 - 1", body(u32::MAX, &[])),
        ("a list of 2^64 - 1 runs", body(2, &[&run, &huge])),
        ("a list of 2^32 runs", body(2, &[&run, &(1u64 << 32).to_le_bytes()])),
        ("a list of one run more than there is", body(2, &[&run, &1u64.to_le_bytes()])),
        ("a text of 2^64 - 1 bytes", body(0, &[&error, &huge])),
        ("a text of 2^62 bytes", body(0, &[&error, &(1u64 << 62).to_le_bytes()])),
        ("a text that is not UTF-8", body(0, &[&error, &2u64.to_le_bytes(), &[0xC3, 0x28]])),
        ("a text with half a surrogate", body(0, &[&error, &3u64.to_le_bytes(), b"\xED\xA0\x80"])),
        ("a text cut within a character", body(0, &[&error, &1u64.to_le_bytes(), &[0xC3]])),
        ("an overlong text", body(0, &[&error, &2u64.to_le_bytes(), &[0xC0, 0xAF]])),
    ];
    // The first option of a status follows the fields of its state.
    if let Some(status) = status {
        let good = bytes_of(status)[4..].to_vec();
        let worker = good.windows(9).position(|bytes| bytes == [1, 3, 0, 0, 0, 0, 0, 0, 0]);
        let mut wrong = good;
        wrong[worker.expect("the option of worker 3")] = 2;
        frames.push(("an option byte of 2", wrong));
    }
    let frames = frames.into_iter();
    let frames = frames.map(|(what, body)| (what.to_owned(), frames::frame(&body), false));
    none_decodes(stage, frames.collect());
}

fn errors(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let known = ErrorCode::ALL.iter().map(|code| (code.number(), code.name()));
    let unknown = [113, 199, 250, 299, 313, 399, 400, 999, 65_535, 0].map(|n| (n, "Unknown"));
    for (number, name) in known.chain(unknown) {
        // These two concern the connection, and have scenarios of their own.
        if [ErrorCode::TooManyConnections.name(), ErrorCode::ShuttingDown.name()].contains(&name) {
            continue;
        }
        let line = stage.next(&client);
        let asked = fake.request();
        let (retry, detail) = (u32::MAX, u64::MAX - u64::from(number));
        fake.send(asked.peer, &frames::error_with(asked.id, number, retry, detail));
        let failure = stage.wait(line).refused(u64::from(number));
        let (said, expected) = (&failure.all, ErrorCode::from_number(number).is_temporary());
        assert_eq!(said["name"], name, "{said}");
        assert_eq!(failure.temporary, expected, "temporary: {said}");
        assert_eq!(said["retry_after_ms"], json!(retry), "{said}");
        assert_eq!(said["detail"], json!(detail.to_string()), "{said}");
    }
}

fn layouts(stage: &mut Stage<'_>) {
    let layouts = [
        "leaf",
        "twitter",
        "baidu",
        "41/10/12@1288834974657/1ms",
        "41/5+5/12@1288834974657/1ms",
        "28/22/13@1463673600000/1000ms",
        "41/10/12@0",
        "40/12/11@1700000000000/10ms",
        "47/4+4/8@1700000000000/10ms",
        "31/16/16@0/1000ms",
        "js",
        "sonyflake",
        "discord",
        "39/s8/w16@1409529600000/10ms",
        "41/s12/w5+5@0",
        "31/8/14@1700000000000",
    ];
    // Fixed ones at the edges, and some in between that are the same in every run.
    let mut values = vec![0, 1, (1 << 53) + 1, i64::MAX as u64 - 1, i64::MAX as u64];
    let mut random = fastrand::Rng::with_seed(15);
    values.extend((0..40).map(|_| random.u64(..) >> 1));
    for text in layouts {
        let (bits, rest, is_swapped) = numbers_of(text);
        for value in &values {
            let (worker_bits, sequence_bits) = (bits.1, bits.2);
            let time = value >> (worker_bits + sequence_bits);
            if time >> bits.0 != 0 {
                let fields = json!({"layout": text, "value": value.to_string()});
                stage.ask("decode_id", fields).fails_with(&["invalid"]);
                continue;
            }
            let (worker_at, sequence_at) =
                if is_swapped { (0, worker_bits) } else { (sequence_bits, 0) };
            let expected = json!({
                "unix_ms": (u128::from(rest.0) + u128::from(time) * u128::from(rest.1)).to_string(),
                "worker": ((value >> worker_at) & ((1 << worker_bits) - 1)).to_string(),
                "sequence": ((value >> sequence_at) & ((1 << sequence_bits) - 1)).to_string(),
            });
            // Times far beyond every calendar may be refused; a real ID has none.
            if time > 1 << 50 {
                continue;
            }
            let fields = json!({"layout": text, "value": value.to_string()});
            let said = stage.ask("decode_id", fields).ok();
            for part in ["unix_ms", "worker", "sequence"] {
                assert_eq!(said[part], expected[part], "{part} of {value} in {text}: {said}");
            }
        }
        for value in [1 << 63, u64::MAX] {
            let fields = json!({"layout": text, "value": value.to_string()});
            stage.ask("decode_id", fields).fails_with(&["invalid"]);
        }
    }
    for text in ["", "leave", "41/10/13@0", "41/10@0", "41/10/12", "39/s8/16@0", "39/8/w16@0"] {
        let fields = json!({"layout": text, "value": "1"});
        stage.ask("decode_id", fields).fails_with(&["invalid"]);
    }
}

/// The bits of time, worker and sequence, then the epoch and the unit in ms, and whether the sequence is
/// above the worker.
fn numbers_of(layout: &str) -> ((u32, u32, u32), (u64, u64), bool) {
    let written = match layout {
        "leaf" | "twitter" => "41/10/12@1288834974657/1ms",
        "baidu" => "28/22/13@1463673600000/1000ms",
        "js" => "37/8/8@1767225600000/10ms",
        "sonyflake" => "39/s8/w16@1409529600000/10ms",
        "discord" => "41/10/12@1420070400000/1ms",
        other => other,
    };
    let (bits, rest) = written.split_once('@').expect("an epoch");
    let parts: Vec<u32> = bits
        .split('/')
        .map(|part| {
            part.trim_start_matches(['s', 'w'])
                .split('+')
                .map(|bits| bits.parse::<u32>().expect("bits"))
                .sum()
        })
        .collect();
    let (epoch, unit) = rest.split_once('/').unwrap_or((rest, "1ms"));
    let unit = unit.strip_suffix("ms").expect("ms");
    let is_swapped = bits.contains('s');
    let (worker, sequence) = if is_swapped { (parts[2], parts[1]) } else { (parts[1], parts[2]) };
    let times = (epoch.parse().expect("ms"), unit.parse().expect("ms"));
    ((parts[0], worker, sequence), times, is_swapped)
}
