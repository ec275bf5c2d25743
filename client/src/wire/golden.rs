//! Golden vectors: every request and every reply as bytes, in both directions, and the numbers of
//! the errors. They were written from the description of the protocol, not from this code. A
//! change that makes one of them fail breaks clients in use.
//!
//! Each vector is length (big-endian), then ID, variant and fields (little-endian).

use super::*;

const HELLO: &str = "
    00000012 0100000000000000 00000000 4c454146 0100
";

const SEGMENT: &str = "
    00000021 0200000000000000 01000000 0500000000000000 6f72646572 0a000000
    56130000
";

const SNOWFLAKE: &str = "
    00000014 0807060504030201 02000000 a0860100 00000000
";

const TIME: &str = "
    0000000c 0400000000000000 03000000
";

const STATUS: &str = "
    0000000c 0500000000000000 04000000
";

const TAG_LIST: &str = "
    00000018 0600000000000000 05000000 0000000000000000 64000000
";

const TAG_SHOW: &str = "
    0000001b 0700000000000000 06000000 0700000000000000 6772c3b6c39f65
";

const TAG_CREATE: &str = "
    0000003f 0800000000000000 07000000 0500000000000000 6f72646572 d0070000
    0100000000000000 1200000000000000 6f7264657273206f66207468652073686f70
";

const TAG_SET_STEP: &str = "
    0000001d 0900000000000000 08000000 0500000000000000 6f72646572 88130000
";

const REPLY_ERROR: &str = "
    00000028 0200000000000000 00000000 3001 14000000 1100000000000000
    0600000000000000 626568696e64
";

const REPLY_HELLO: &str = "
    00000016 0100000000000000 01000000 0100 a0860100 00040000
";

const REPLY_IDS_ONE_RUN: &str = "
    00000020 0200000000000000 02000000 0100000000000000 0a000000 0000000000000000
";

const REPLY_IDS_THREE_RUNS: &str = "
    00000038 0300000000000000 02000000 d007000000000000 01000000 0200000000000000
    a10f000000000000 02000000 ffffffffffffff7f 01000000
";

const REPLY_TIME: &str = "
    00000014 0400000000000000 03000000 00806e8774010000
";

const REPLY_STATUS_SERVING: &str = "
    000000e3 0500000000000000 04000000 0500000000000000 302e312e30 67120000
    60ea000000000000 03000000 40e2010000000000 0e00000000000000
    2f7661722f6c69622f6c65616664 0600000000000000 73716c697465 0600000000000000
    6c6f636b6564 0200000000000000 0100000000000000 8813000000000000
    0400000000000000 00000000 01 0102000000000000 0900000000000000
    7a6f6f6b6565706572 1a00000000000000
    34312f31302f313240313238383833343937343635372f316d73 b88b6e8774010000
    01806e8774010000 02806e8774010000 4d00000000000000
";

const REPLY_STATUS_BEHIND: &str = "
    000000eb 0500000000000000 04000000 0500000000000000 302e312e30 67120000
    60ea000000000000 03000000 40e2010000000000 0e00000000000000
    2f7661722f6c69622f6c65616664 0600000000000000 73716c697465 0600000000000000
    6c6f636b6564 0200000000000000 0100000000000000 8813000000000000
    0400000000000000 01000000 1100000000000000 01 0102000000000000
    0900000000000000 7a6f6f6b6565706572 1a00000000000000
    34312f31302f313240313238383833343937343635372f316d73 b88b6e8774010000
    01806e8774010000 02806e8774010000 4d00000000000000
";

const REPLY_STATUS_REFUSED: &str = "
    000000f7 0500000000000000 04000000 0500000000000000 302e312e30 67120000
    60ea000000000000 03000000 40e2010000000000 0e00000000000000
    2f7661722f6c69622f6c65616664 0600000000000000 73716c697465 0600000000000000
    6c6f636b6564 0200000000000000 0100000000000000 8813000000000000
    0400000000000000 02000000 0c00000000000000 6e6f20776f726b6572204944 01
    0102000000000000 0900000000000000 7a6f6f6b6565706572 1a00000000000000
    34312f31302f313240313238383833343937343635372f316d73 b88b6e8774010000
    01806e8774010000 02806e8774010000 4d00000000000000
";

const REPLY_TAGS: &str = "
    00000124 0600000000000000 05000000 0200000000000000 0500000000000000
    6f72646572 d007000000000000 a00f000000000000 411f000000000000 0600000000000000
    6f7264657273 01 d107000000000000 a10f000000000000 01 a10f000000000000
    411f000000000000 b80b000000000000 8913000000000000 b70b000000000000
    0300000000000000 01 dc05000000000000 a00f000000000000 0000000000000000
    0000000000000000 01 1900000000000000 0400000000000000 75736572 e803000000000000
    e803000000000000 0100000000000000 0000000000000000 00 00 0000000000000000
    0000000000000000 0000000000000000 0000000000000000 00 0000000000000000
    0200000000000000 0900000000000000 74696d6564206f7574 00
";

const REPLY_GOODBYE: &str = "
    0000000c 0000000000000000 06000000
";

/// Every request with its bytes, magic and version first.
pub(super) fn requests() -> Vec<(Vec<u8>, Request<'static>)> {
    [
        (HELLO, 1, Call::Hello { magic: *b"LEAF", version: 1 }),
        (SEGMENT, 2, Call::Segment { tag: "order", count: 10, timeout_ms: 4950 }),
        (SNOWFLAKE, 0x0102_0304_0506_0708, Call::Snowflake { count: 100_000, timeout_ms: 0 }),
        (TIME, 4, Call::Time),
        (STATUS, 5, Call::Status),
        (TAG_LIST, 6, Call::TagList { after: "", limit: 100 }),
        (TAG_SHOW, 7, Call::TagShow { tag: "größe" }),
        (
            TAG_CREATE,
            8,
            Call::TagCreate {
                tag: "order",
                step: 2000,
                first: 1,
                description: "orders of the shop",
            },
        ),
        (TAG_SET_STEP, 9, Call::TagSetStep { tag: "order", step: 5000 }),
    ]
    .map(|(hex, id, call)| (bytes(hex), Request { id, call }))
    .into()
}

/// Every reply with its bytes.
pub(super) fn replies() -> Vec<(Vec<u8>, Response)> {
    let run = |first, count| Run { first, count };
    let refused = SnowflakeState::Refused { reason: "no worker ID".into() };
    let behind = WireError { code: 304, retry_after_ms: 20, detail: 17, message: "behind".into() };
    [
        (REPLY_ERROR, 2, Reply::Error(behind)),
        (REPLY_HELLO, 1, Reply::Hello { version: 1, max_count: 100_000, max_in_flight: 1024 }),
        (REPLY_IDS_ONE_RUN, 2, Reply::Ids { first: run(1, 10), more: vec![] }),
        (
            REPLY_IDS_THREE_RUNS,
            3,
            Reply::Ids { first: run(2000, 1), more: vec![run(4001, 2), run(i64::MAX as u64, 1)] },
        ),
        (REPLY_TIME, 4, Reply::Time { unix_ms: 1_600_000_000_000 }),
        (REPLY_STATUS_SERVING, 5, status(SnowflakeState::Serving)),
        (REPLY_STATUS_BEHIND, 5, status(SnowflakeState::ClockBehind { behind_ms: 17 })),
        (REPLY_STATUS_REFUSED, 5, status(refused)),
        (REPLY_TAGS, 6, Reply::Tags(vec![leased_tag(), idle_tag()])),
        (REPLY_GOODBYE, 0, Reply::Goodbye),
    ]
    .map(|(hex, id, reply)| (bytes(hex), Response { id, reply }))
    .into()
}

fn status(state: SnowflakeState) -> Reply {
    Reply::Status(Box::new(DaemonStatus {
        version: "0.1.0".into(),
        pid: 4711,
        uptime_ms: 60_000,
        connections: 3,
        requests: 123_456,
        state_dir: "/var/lib/leafd".into(),
        segments: SegmentTotals {
            store: "sqlite".into(),
            store_error: "locked".into(),
            tags: 2,
            waiting: 1,
            issued: 5000,
            leases: 4,
        },
        snowflake: SnowflakeStatus {
            state,
            worker: Some(513),
            registry: "zookeeper".into(),
            layout: "41/10/12@1288834974657/1ms".into(),
            ceiling_unix_ms: 1_600_000_003_000,
            last_unix_ms: 1_600_000_000_001,
            clock_unix_ms: 1_600_000_000_002,
            issued: 77,
        },
    }))
}

fn leased_tag() -> TagStatus {
    TagStatus {
        tag: "order".into(),
        row_step: 2000,
        step: 4000,
        max_id: 8001,
        description: "orders".into(),
        current: Some(Span { start: 2001, end: 4001 }),
        next: Some(Span { start: 4001, end: 8001 }),
        position: 3000,
        remaining: 5001,
        issued: 2999,
        leases: 3,
        last_lease_ms_ago: Some(1500),
        last_lease_size: 4000,
        waiting: 0,
        lease_error: String::new(),
        seconds_left: Some(25),
    }
}

fn idle_tag() -> TagStatus {
    TagStatus {
        tag: "user".into(),
        row_step: 1000,
        step: 1000,
        max_id: 1,
        description: String::new(),
        current: None,
        next: None,
        position: 0,
        remaining: 0,
        issued: 0,
        leases: 0,
        last_lease_ms_ago: None,
        last_lease_size: 0,
        waiting: 2,
        lease_error: "timed out".into(),
        seconds_left: None,
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_request_has_the_bytes_of_its_vector() {
    for (golden, request) in requests() {
        let mut out = vec![0xAA];
        encode_request(&request, &mut out);
        assert_eq!(out[1..], golden, "{request:?}");
        let (body, rest) = split_frame(&golden, MAX_REQUEST_LEN).unwrap().unwrap();
        assert_eq!(decode_request(body).unwrap(), request);
        assert!(rest.is_empty());
    }
}

#[test]
fn every_reply_has_the_bytes_of_its_vector() {
    for (golden, response) in replies() {
        let mut out = vec![0xAA];
        encode_response(&response, &mut out);
        assert_eq!(out[1..], golden, "{response:?}");
        let (body, rest) = split_frame(&golden, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
        assert!(rest.is_empty());
    }
}

#[test]
fn no_call_and_no_reply_is_without_a_vector() {
    // The variant's number follows length and ID.
    let variants = |frames: Vec<Vec<u8>>| {
        let mut found: Vec<u8> = frames.iter().map(|frame| frame[12]).collect();
        found.dedup();
        found
    };
    let calls = variants(requests().into_iter().map(|(golden, _)| golden).collect());
    assert_eq!(calls, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let replies = variants(replies().into_iter().map(|(golden, _)| golden).collect());
    assert_eq!(replies, [0, 1, 2, 3, 4, 5, 6]);

    let one_more =
        |variant: u8| [&[1, 0, 0, 0, 0, 0, 0, 0, variant, 0, 0, 0], &[0; 64][..]].concat();
    assert_eq!(
        decode_request(&one_more(9)).unwrap_err().error.code(),
        ErrorCode::UnknownCall,
        "a new call needs a vector here"
    );
    assert!(decode_response(&one_more(7)).is_err(), "a new reply needs a vector here");
}

#[test]
fn the_number_of_an_error_never_changes() {
    let golden = [
        (100, "BadMagic"),
        (101, "VersionUnsupported"),
        (102, "HelloExpected"),
        (103, "Malformed"),
        (104, "UnknownCall"),
        (105, "FrameTooLarge"),
        (200, "BadCount"),
        (201, "BadTag"),
        (202, "UnknownTag"),
        (203, "TagExists"),
        (204, "BadStep"),
        (205, "BadDescription"),
        (206, "Forbidden"),
        (207, "NotConfigured"),
        (208, "TooManyTags"),
        (300, "TooManyConnections"),
        (301, "TooManyInFlight"),
        (302, "StoreUnavailable"),
        (303, "StateUnavailable"),
        (304, "ClockBackwards"),
        (305, "WorkerUnavailable"),
        (306, "TimeExhausted"),
        (307, "BadRow"),
        (308, "DeadlineExceeded"),
        (309, "ShuttingDown"),
        (310, "TooManyWaiting"),
    ];
    for (number, name) in golden {
        assert_eq!(ErrorCode::from_number(number).name(), name, "{number}");
    }
    assert_eq!(ErrorCode::ALL.len(), golden.len(), "a new error needs a line here");
}
