//! Between messages and the fields of `protocol/vectors.json`.

use leaf_client::wire::{
    Call, HeldLoan, LimitForecast, MAX_RESPONSE_LEN, Reply, Request, Span, TagForecast,
    WorkerState, WorkerStatus, decode_response, encode_request, split_frame,
};
use leaf_client::{DaemonStatus, Run, TagStatus};
use serde_json::{Value, json};

use crate::common::{Outcome, plain_error};

/// The frame of a request.
pub fn encode(line: &Value) -> Value {
    let fields = &line["fields"];
    let text = |name: &str| fields[name].as_str().unwrap_or_else(|| panic!("{name}: {fields}"));
    let long = |name: &str| text(name).parse::<u64>().expect("a number");
    let short = |name: &str| -> u32 {
        let number = fields[name].as_u64().unwrap_or_else(|| panic!("{name}: {fields}"));
        number.try_into().expect("32 bits")
    };
    let texts = |name: &str| -> Vec<&str> {
        let list = fields[name].as_array().unwrap_or_else(|| panic!("{name}: {fields}"));
        list.iter().map(|text| text.as_str().expect("a text")).collect()
    };
    let call = match line["message"].as_str().expect("a message") {
        "Hello" => {
            let magic = bytes(text("magic")).try_into().expect("four bytes");
            Call::Hello { magic, version: short("version").try_into().expect("16 bits") }
        }
        "Segment" => Call::Segment {
            tag: text("tag"),
            count: short("count"),
            timeout_ms: short("timeout_ms"),
        },
        "Snowflake" => Call::Snowflake { count: short("count"), timeout_ms: short("timeout_ms") },
        "Time" => Call::Time,
        "Status" => Call::Status,
        "TagList" => Call::TagList { after: text("after"), limit: short("limit") },
        "TagShow" => Call::TagShow { tag: text("tag") },
        "TagCreate" => Call::TagCreate {
            tag: text("tag"),
            step: short("step"),
            first: long("first"),
            description: text("description"),
        },
        "TagSetStep" => Call::TagSetStep { tag: text("tag"), step: short("step") },
        "WorkerList" => Call::WorkerList { from: long("from"), limit: short("limit") },
        "WorkerRelease" => Call::WorkerRelease { worker: long("worker"), owner: text("owner") },
        "TagDelete" => Call::TagDelete { tag: text("tag") },
        "TagsUsed" => Call::TagsUsed { after: text("after"), limit: short("limit") },
        "WorkerBorrow" => {
            let held = &fields["held"];
            let of_held = |name: &str| held[name].as_str().expect("a text");
            let number = |name: &str| of_held(name).parse::<u64>().expect("a number");
            let held = (!held.is_null()).then(|| HeldLoan {
                worker: number("worker"),
                claim: of_held("claim"),
                limit_unix_ms: number("limit_unix_ms"),
                left_ms: number("left_ms"),
            });
            let (pool, borrower) = (text("pool"), text("borrower"));
            let (cgroup, cgroup_inode) = (text("cgroup"), long("cgroup_inode"));
            Call::WorkerBorrow { pool, borrower, cgroup, cgroup_inode, held }
        }
        "WorkerReturn" => Call::WorkerReturn {
            pool: text("pool"),
            borrower: text("borrower"),
            ceiling_unix_ms: long("ceiling_unix_ms"),
        },
        "PoolList" => {
            Call::PoolList { pool: text("pool"), from: long("from"), limit: short("limit") }
        }
        "PoolRelease" => {
            let (worker, owner) = (long("worker"), text("owner"));
            Call::PoolRelease { pool: text("pool"), worker, owner }
        }
        "TagForecasts" => {
            Call::TagForecasts { tag: text("tag"), after: text("after"), limit: short("limit") }
        }
        "PublicEncode" => Call::PublicEncode {
            tag: text("tag"),
            ids: texts("ids").iter().map(|id| id.parse().expect("an ID")).collect(),
        },
        "PublicDecode" => Call::PublicDecode { tag: text("tag"), public_ids: texts("public_ids") },
        _ => return json!({"unsupported": true}),
    };
    let id = line["request_id"].as_str().and_then(|id| id.parse().ok()).expect("an ID");
    let mut out = Vec::new();
    encode_request(&Request { id, call }, &mut out);
    json!({"hex": out.iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
}

/// The message in a frame.
pub fn decode(hex: &str) -> Outcome {
    let refuse = |why: &str| plain_error("protocol", why);
    let frame = bytes(hex);
    let split =
        split_frame(&frame, MAX_RESPONSE_LEN).map_err(|error| refuse(&error.to_string()))?;
    let Some((body, [])) = split else { return Err(refuse("not exactly one frame")) };
    let response = decode_response(body).map_err(|error| refuse(&error.to_string()))?;
    let (message, fields) = match response.reply {
        Reply::Error(error) => (
            "Error",
            json!({
                "code": error.code, "retry_after_ms": error.retry_after_ms,
                "detail": error.detail.to_string(), "message": error.message,
            }),
        ),
        Reply::Hello { version, max_count, max_in_flight } => (
            "Hello",
            json!({"version": version, "max_count": max_count, "max_in_flight": max_in_flight}),
        ),
        Reply::Ids { first, more } => {
            let run = |run: &Run| json!({"first": run.first.to_string(), "count": run.count});
            let more: Vec<_> = more.iter().map(run).collect();
            ("Ids", json!({"first": run(&first), "more": more}))
        }
        Reply::Time { unix_ms } => ("Time", json!({"unix_ms": unix_ms.to_string()})),
        Reply::Status(fields) => ("Status", status(&fields)),
        Reply::Tags(tags) => ("Tags", json!({"tags": tags.iter().map(tag).collect::<Vec<_>>()})),
        Reply::Goodbye => ("Goodbye", json!({})),
        Reply::Workers(workers) => {
            ("Workers", json!({"workers": workers.iter().map(worker).collect::<Vec<_>>()}))
        }
        Reply::Loan(loan) => (
            "Loan",
            json!({
                "worker": loan.worker.to_string(), "bits": loan.bits, "claim": loan.claim,
                "start_unix_ms": loan.start_unix_ms.to_string(),
                "limit_unix_ms": loan.limit_unix_ms.to_string(),
                "left_ms": loan.left_ms.to_string(),
            }),
        ),
        Reply::PublicIds(texts) => ("PublicIds", json!({"public_ids": texts})),
        Reply::PublicNumbers(ids) => {
            let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
            ("PublicNumbers", json!({"ids": ids}))
        }
        Reply::Forecasts(page) => (
            "Forecasts",
            json!({
                "unix_ms": page.unix_ms.to_string(),
                "layout_end_unix_ms": text(page.layout_end_unix_ms),
                "tags": page.tags.iter().map(forecast).collect::<Vec<_>>(),
            }),
        ),
    };
    Ok(json!({"message": message, "request_id": response.id.to_string(), "fields": fields}))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

/// The fields of a status.
pub fn status(status: &DaemonStatus) -> Value {
    use leaf_client::wire::SnowflakeState;
    let (segments, snowflake) = (&status.segments, &status.snowflake);
    let state = match &snowflake.state {
        SnowflakeState::Serving => json!({"variant": "Serving"}),
        SnowflakeState::ClockBehind { behind_ms } => {
            json!({"variant": "ClockBehind", "behind_ms": behind_ms.to_string()})
        }
        SnowflakeState::Refused { reason } => json!({"variant": "Refused", "reason": reason}),
        SnowflakeState::Starting { reason } => json!({"variant": "Starting", "reason": reason}),
    };
    json!({
        "version": status.version,
        "pid": status.pid,
        "uptime_ms": status.uptime_ms.to_string(),
        "connections": status.connections,
        "requests": status.requests.to_string(),
        "state_dir": status.state_dir,
        "segments": {
            "store": segments.store,
            "store_error": segments.store_error,
            "tags": segments.tags.to_string(),
            "waiting": segments.waiting.to_string(),
            "issued": segments.issued.to_string(),
            "leases": segments.leases.to_string(),
        },
        "snowflake": {
            "state": state,
            "worker": text(snowflake.worker),
            "registry": snowflake.registry,
            "layout": snowflake.layout,
            "ceiling_unix_ms": snowflake.ceiling_unix_ms.to_string(),
            "last_unix_ms": snowflake.last_unix_ms.to_string(),
            "clock_unix_ms": snowflake.clock_unix_ms.to_string(),
            "issued": snowflake.issued.to_string(),
            "identity": snowflake.identity,
            "last_report_ms_ago": text(snowflake.last_report_ms_ago),
            "registry_error": snowflake.registry_error,
            "limit_unix_ms": text(snowflake.limit_unix_ms),
            "clock_offset_ms": snowflake.clock_offset_ms.map(|offset| offset.to_string()),
            "peers": snowflake.peers,
        },
    })
}

fn text(number: Option<u64>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn tag(tag: &TagStatus) -> Value {
    let span = |span: &Option<Span>| {
        span.map(|span| json!({"start": span.start.to_string(), "end": span.end.to_string()}))
    };
    json!({
        "tag": tag.tag,
        "row_step": tag.row_step.to_string(),
        "step": tag.step.to_string(),
        "max_id": tag.max_id.to_string(),
        "description": tag.description,
        "current": span(&tag.current),
        "next": span(&tag.next),
        "position": tag.position.to_string(),
        "remaining": tag.remaining.to_string(),
        "issued": tag.issued.to_string(),
        "leases": tag.leases.to_string(),
        "last_lease_ms_ago": text(tag.last_lease_ms_ago),
        "last_lease_size": tag.last_lease_size.to_string(),
        "waiting": tag.waiting.to_string(),
        "lease_error": tag.lease_error,
        "seconds_left": text(tag.seconds_left),
    })
}

fn forecast(tag: &TagForecast) -> Value {
    let growth = tag.growth.map(
        |growth| json!({"ids": growth.ids.to_string(), "seconds": growth.seconds.to_string()}),
    );
    let limit = |limit: &LimitForecast| {
        json!({
            "limit": limit.limit.to_string(),
            "reached_unix_ms": text(limit.reached_unix_ms),
        })
    };
    json!({
        "tag": tag.tag,
        "max_id": tag.max_id.to_string(),
        "growth": growth,
        "limits": tag.limits.iter().map(limit).collect::<Vec<_>>(),
    })
}

fn worker(worker: &WorkerStatus) -> Value {
    let state = match worker.state {
        WorkerState::Held => "Held",
        WorkerState::Settling => "Settling",
        WorkerState::Released => "Released",
        WorkerState::JavaLeaf => "JavaLeaf",
    };
    json!({
        "worker": worker.worker.to_string(),
        "owner": worker.owner,
        "address": worker.address,
        "state": {"variant": state},
        "live": worker.live,
        "own": worker.own,
        "reported_unix_ms": worker.reported_unix_ms.to_string(),
        "age_ms": worker.age_ms.to_string(),
        "ceiling_unix_ms": worker.ceiling_unix_ms.to_string(),
        "limit_unix_ms": text(worker.limit_unix_ms),
    })
}
