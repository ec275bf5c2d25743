//! From the fields of a vector to a message, by the format that `protocol/README.md` describes.
//! Every key has to be read, and every value has to have its type.

use serde_json::{Map, Value};

use super::super::*;

/// The fields of one struct. Fields are taken out; what is left over is a mistake in the vector.
pub(super) struct Fields {
    left: Map<String, Value>,
}

impl Fields {
    pub(super) fn new(value: &Value) -> Self {
        Self { left: value.as_object().unwrap_or_else(|| panic!("{value} is no object")).clone() }
    }

    fn take(&mut self, name: &str) -> Value {
        self.left.remove(name).unwrap_or_else(|| panic!("no field {name} in {:?}", self.left))
    }

    fn end(self) {
        assert!(self.left.is_empty(), "unknown fields: {:?}", self.left);
    }

    fn text(&mut self, name: &str) -> String {
        self.take(name).as_str().unwrap_or_else(|| panic!("{name} is no string")).to_owned()
    }

    /// A text that lives as long as the test process: requests borrow their texts.
    fn borrowed(&mut self, name: &str) -> &'static str {
        self.text(name).leak()
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name).as_bool().unwrap_or_else(|| panic!("{name} is no boolean"))
    }

    pub(super) fn u16(&mut self, name: &str) -> u16 {
        self.u32(name).try_into().unwrap()
    }

    fn u32(&mut self, name: &str) -> u32 {
        let number = self.take(name);
        let number = number.as_u64().unwrap_or_else(|| panic!("{name} is no number: {number}"));
        number.try_into().unwrap()
    }

    pub(super) fn u64(&mut self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        let list = self.take(name);
        let list = list.as_array().unwrap_or_else(|| panic!("{name} is no list"));
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{name}")).to_owned();
        list.iter().map(text).collect()
    }

    /// `None` for `null`; otherwise what `read` returns.
    fn option<T>(&mut self, name: &str, read: impl Fn(&mut Self, &str) -> T) -> Option<T> {
        if self.left.get(name) == Some(&Value::Null) {
            self.take(name);
            return None;
        }
        Some(read(self, name))
    }

    fn nested<T>(&mut self, name: &str, read: impl Fn(&mut Self) -> T) -> T {
        let mut fields = Self::new(&self.take(name));
        let value = read(&mut fields);
        fields.end();
        value
    }

    fn list<T>(&mut self, name: &str, read: impl Fn(&mut Self) -> T) -> Vec<T> {
        let list = self.take(name);
        let list = list.as_array().unwrap_or_else(|| panic!("{name} is no list"));
        let element = |value| {
            let mut fields = Self::new(value);
            let element = read(&mut fields);
            fields.end();
            element
        };
        list.iter().map(element).collect()
    }
}

/// The call of a request vector.
pub(super) fn call(message: &str, mut fields: Fields) -> Call<'static> {
    let of = &mut fields;
    let call = match message {
        "Hello" => Call::Hello {
            magic: super::bytes(&of.text("magic")).try_into().unwrap(),
            version: of.u16("version"),
        },
        "Segment" => Call::Segment {
            tag: of.borrowed("tag"),
            count: of.u32("count"),
            timeout_ms: of.u32("timeout_ms"),
        },
        "Snowflake" => Call::Snowflake { count: of.u32("count"), timeout_ms: of.u32("timeout_ms") },
        "Time" => Call::Time,
        "Status" => Call::Status,
        "TagList" => Call::TagList { after: of.borrowed("after"), limit: of.u32("limit") },
        "TagShow" => Call::TagShow { tag: of.borrowed("tag") },
        "TagCreate" => Call::TagCreate {
            tag: of.borrowed("tag"),
            step: of.u32("step"),
            first: of.u64("first"),
            description: of.borrowed("description"),
        },
        "TagSetStep" => Call::TagSetStep { tag: of.borrowed("tag"), step: of.u32("step") },
        "WorkerList" => Call::WorkerList { from: of.u64("from"), limit: of.u32("limit") },
        "WorkerRelease" => {
            Call::WorkerRelease { worker: of.u64("worker"), owner: of.borrowed("owner") }
        }
        "TagDelete" => Call::TagDelete { tag: of.borrowed("tag") },
        "TagsUsed" => Call::TagsUsed { after: of.borrowed("after"), limit: of.u32("limit") },
        "WorkerBorrow" => Call::WorkerBorrow {
            pool: of.borrowed("pool"),
            borrower: of.borrowed("borrower"),
            cgroup: of.borrowed("cgroup"),
            cgroup_inode: of.u64("cgroup_inode"),
            held: of.option("held", |of, name| of.nested(name, held_loan)),
        },
        "WorkerReturn" => Call::WorkerReturn {
            pool: of.borrowed("pool"),
            borrower: of.borrowed("borrower"),
            ceiling_unix_ms: of.u64("ceiling_unix_ms"),
        },
        "PoolList" => Call::PoolList {
            pool: of.borrowed("pool"),
            from: of.u64("from"),
            limit: of.u32("limit"),
        },
        "PoolRelease" => Call::PoolRelease {
            pool: of.borrowed("pool"),
            worker: of.u64("worker"),
            owner: of.borrowed("owner"),
        },
        "TagForecasts" => Call::TagForecasts {
            tag: of.borrowed("tag"),
            after: of.borrowed("after"),
            limit: of.u32("limit"),
        },
        "PublicEncode" => Call::PublicEncode {
            tag: of.borrowed("tag"),
            ids: of.texts("ids").iter().map(|id| id.parse().unwrap()).collect(),
        },
        "PublicDecode" => Call::PublicDecode {
            tag: of.borrowed("tag"),
            public_ids: of.texts("public_ids").into_iter().map(|text| &*text.leak()).collect(),
        },
        unknown => panic!("{unknown} is no call"),
    };
    fields.end();
    call
}

/// The reply of a response vector.
pub(super) fn reply(message: &str, mut fields: Fields) -> Reply {
    let of = &mut fields;
    let reply = match message {
        "Error" => Reply::Error(WireError {
            code: of.u16("code"),
            retry_after_ms: of.u32("retry_after_ms"),
            detail: of.u64("detail"),
            message: of.text("message"),
        }),
        "Hello" => Reply::Hello {
            version: of.u16("version"),
            max_count: of.u32("max_count"),
            max_in_flight: of.u32("max_in_flight"),
        },
        "Ids" => Reply::Ids { first: of.nested("first", run), more: of.list("more", run) },
        "Time" => Reply::Time { unix_ms: of.u64("unix_ms") },
        "Status" => Reply::Status(Box::new(daemon_status(of))),
        "Tags" => Reply::Tags(of.list("tags", tag_status)),
        "Goodbye" => Reply::Goodbye,
        "Workers" => Reply::Workers(of.list("workers", worker_status)),
        "Loan" => Reply::Loan(worker_loan(of)),
        "Forecasts" => Reply::Forecasts(ForecastPage {
            unix_ms: of.u64("unix_ms"),
            layout_end_unix_ms: of.option("layout_end_unix_ms", Fields::u64),
            tags: of.list("tags", tag_forecast),
        }),
        "PublicIds" => Reply::PublicIds(of.texts("public_ids")),
        "PublicNumbers" => {
            Reply::PublicNumbers(of.texts("ids").iter().map(|id| id.parse().unwrap()).collect())
        }
        unknown => panic!("{unknown} is no reply"),
    };
    fields.end();
    reply
}

fn run(of: &mut Fields) -> Run {
    Run { first: of.u64("first"), count: of.u32("count") }
}

fn span(of: &mut Fields) -> Span {
    Span { start: of.u64("start"), end: of.u64("end") }
}

fn daemon_status(of: &mut Fields) -> DaemonStatus {
    DaemonStatus {
        version: of.text("version"),
        pid: of.u32("pid"),
        uptime_ms: of.u64("uptime_ms"),
        connections: of.u32("connections"),
        requests: of.u64("requests"),
        state_dir: of.text("state_dir"),
        segments: of.nested("segments", |of| SegmentTotals {
            store: of.text("store"),
            store_error: of.text("store_error"),
            tags: of.u64("tags"),
            waiting: of.u64("waiting"),
            issued: of.u64("issued"),
            leases: of.u64("leases"),
        }),
        snowflake: of.nested("snowflake", snowflake_status),
    }
}

fn snowflake_status(of: &mut Fields) -> SnowflakeStatus {
    SnowflakeStatus {
        state: of.nested("state", |of| match of.text("variant").as_str() {
            "Serving" => SnowflakeState::Serving,
            "ClockBehind" => SnowflakeState::ClockBehind { behind_ms: of.u64("behind_ms") },
            "Refused" => SnowflakeState::Refused { reason: of.text("reason") },
            "Starting" => SnowflakeState::Starting { reason: of.text("reason") },
            unknown => panic!("{unknown} is no snowflake state"),
        }),
        worker: of.option("worker", Fields::u64),
        registry: of.text("registry"),
        layout: of.text("layout"),
        ceiling_unix_ms: of.u64("ceiling_unix_ms"),
        last_unix_ms: of.u64("last_unix_ms"),
        clock_unix_ms: of.u64("clock_unix_ms"),
        issued: of.u64("issued"),
        identity: of.text("identity"),
        last_report_ms_ago: of.option("last_report_ms_ago", Fields::u64),
        registry_error: of.text("registry_error"),
        limit_unix_ms: of.option("limit_unix_ms", Fields::u64),
        clock_offset_ms: of.option("clock_offset_ms", |of, name| of.text(name).parse().unwrap()),
        peers: of.u32("peers"),
    }
}

fn tag_status(of: &mut Fields) -> TagStatus {
    TagStatus {
        tag: of.text("tag"),
        row_step: of.u64("row_step"),
        step: of.u64("step"),
        max_id: of.u64("max_id"),
        description: of.text("description"),
        current: of.option("current", |of, name| of.nested(name, span)),
        next: of.option("next", |of, name| of.nested(name, span)),
        position: of.u64("position"),
        remaining: of.u64("remaining"),
        issued: of.u64("issued"),
        leases: of.u64("leases"),
        last_lease_ms_ago: of.option("last_lease_ms_ago", Fields::u64),
        last_lease_size: of.u64("last_lease_size"),
        waiting: of.u64("waiting"),
        lease_error: of.text("lease_error"),
        seconds_left: of.option("seconds_left", Fields::u64),
    }
}

fn tag_forecast(of: &mut Fields) -> TagForecast {
    TagForecast {
        tag: of.text("tag"),
        max_id: of.u64("max_id"),
        growth: of.option("growth", |of, name| {
            of.nested(name, |of| TagGrowth { ids: of.u64("ids"), seconds: of.u64("seconds") })
        }),
        limits: of.list("limits", |of| LimitForecast {
            limit: of.u64("limit"),
            reached_unix_ms: of.option("reached_unix_ms", Fields::u64),
        }),
    }
}

fn held_loan(of: &mut Fields) -> HeldLoan<'static> {
    HeldLoan {
        worker: of.u64("worker"),
        claim: of.borrowed("claim"),
        limit_unix_ms: of.u64("limit_unix_ms"),
        left_ms: of.u64("left_ms"),
    }
}

fn worker_loan(of: &mut Fields) -> WorkerLoan {
    WorkerLoan {
        worker: of.u64("worker"),
        bits: of.u32("bits"),
        claim: of.text("claim"),
        start_unix_ms: of.u64("start_unix_ms"),
        limit_unix_ms: of.u64("limit_unix_ms"),
        left_ms: of.u64("left_ms"),
    }
}

fn worker_status(of: &mut Fields) -> WorkerStatus {
    WorkerStatus {
        worker: of.u64("worker"),
        owner: of.text("owner"),
        address: of.text("address"),
        state: of.nested("state", |of| match of.text("variant").as_str() {
            "Held" => WorkerState::Held,
            "Settling" => WorkerState::Settling,
            "Released" => WorkerState::Released,
            "JavaLeaf" => WorkerState::JavaLeaf,
            unknown => panic!("{unknown} is no worker state"),
        }),
        live: of.flag("live"),
        own: of.flag("own"),
        reported_unix_ms: of.u64("reported_unix_ms"),
        age_ms: of.u64("age_ms"),
        ceiling_unix_ms: of.u64("ceiling_unix_ms"),
        limit_unix_ms: of.option("limit_unix_ms", Fields::u64),
    }
}
