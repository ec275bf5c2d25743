//! Golden vectors: every request and every reply as bytes, in both directions, and the numbers of
//! the errors. They were written from the description of the protocol, not from this code. A
//! change that makes one of them fail breaks clients in use.

mod vectors;

use super::*;
use vectors::*;

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
        (WORKER_LIST, 10, Call::WorkerList { from: 513, limit: 100 }),
        (WORKER_RELEASE, 11, Call::WorkerRelease { worker: 513, owner: "10.0.0.7:2182" }),
        (TAG_DELETE, 12, Call::TagDelete { tag: "order" }),
        (TAGS_USED, 13, Call::TagsUsed { after: "order", limit: 100 }),
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
        (REPLY_STATUS_SERVING, 5, status(snowflake(SnowflakeState::Serving))),
        (REPLY_STATUS_BEHIND, 5, status(snowflake(SnowflakeState::ClockBehind { behind_ms: 17 }))),
        (REPLY_STATUS_REFUSED, 5, status(snowflake(refused))),
        (REPLY_STATUS_STARTING, 5, status(unregistered())),
        (REPLY_TAGS, 6, Reply::Tags(vec![leased_tag(), idle_tag()])),
        (REPLY_GOODBYE, 0, Reply::Goodbye),
        (
            REPLY_WORKERS,
            10,
            Reply::Workers(vec![
                own_worker(),
                WorkerStatus { live: true, ..worker(514, "größe", "", WorkerState::Settling) },
                worker(515, "a", "b", WorkerState::Released),
                worker(516, "c", "d", WorkerState::JavaLeaf),
            ]),
        ),
    ]
    .map(|(hex, id, reply)| (bytes(hex), Response { id, reply }))
    .into()
}

fn status(snowflake: SnowflakeStatus) -> Reply {
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
        snowflake,
    }))
}

fn snowflake(state: SnowflakeState) -> SnowflakeStatus {
    SnowflakeStatus {
        state,
        worker: Some(513),
        registry: "zookeeper".into(),
        layout: "41/10/12@1288834974657/1ms".into(),
        ceiling_unix_ms: 1_600_000_003_000,
        last_unix_ms: 1_600_000_000_001,
        clock_unix_ms: 1_600_000_000_002,
        issued: 77,
        identity: "10.0.0.7:2182".into(),
        last_report_ms_ago: Some(1500),
        registry_error: String::new(),
        limit_unix_ms: Some(1_600_043_200_000),
        clock_offset_ms: Some(-12),
        peers: 2,
    }
}

fn unregistered() -> SnowflakeStatus {
    SnowflakeStatus {
        identity: String::new(),
        last_report_ms_ago: None,
        registry_error: "timed out".into(),
        limit_unix_ms: None,
        clock_offset_ms: None,
        peers: 0,
        ..snowflake(SnowflakeState::Starting { reason: "waits".into() })
    }
}

fn own_worker() -> WorkerStatus {
    WorkerStatus {
        worker: 513,
        owner: "10.0.0.7:2182".into(),
        address: "10.0.0.7:2182".into(),
        state: WorkerState::Held,
        live: true,
        own: true,
        reported_unix_ms: 1_600_000_000_000,
        age_ms: 1500,
        ceiling_unix_ms: 1_600_000_003_000,
        limit_unix_ms: Some(1_600_043_200_000),
    }
}

fn worker(worker: u64, owner: &str, address: &str, state: WorkerState) -> WorkerStatus {
    WorkerStatus {
        worker,
        owner: owner.into(),
        address: address.into(),
        state,
        live: false,
        own: false,
        reported_unix_ms: 0,
        age_ms: 0,
        ceiling_unix_ms: 0,
        limit_unix_ms: None,
    }
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
    assert_eq!(calls, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let replies = variants(replies().into_iter().map(|(golden, _)| golden).collect());
    assert_eq!(replies, [0, 1, 2, 3, 4, 5, 6, 7]);

    let one_more =
        |variant: u8| [&[1, 0, 0, 0, 0, 0, 0, 0, variant, 0, 0, 0], &[0; 64][..]].concat();
    assert_eq!(
        decode_request(&one_more(13)).unwrap_err().error.code(),
        ErrorCode::UnknownCall,
        "a new call needs a vector here"
    );
    assert!(decode_response(&one_more(8)).is_err(), "a new reply needs a vector here");
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
        (209, "UnknownWorker"),
        (210, "WorkerInUse"),
        (211, "WrongOwner"),
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
        (311, "RegistryUnavailable"),
        (312, "QuotaExceeded"),
    ];
    for (number, name) in golden {
        assert_eq!(ErrorCode::from_number(number).name(), name, "{number}");
    }
    assert_eq!(ErrorCode::ALL.len(), golden.len(), "a new error needs a line here");
}
