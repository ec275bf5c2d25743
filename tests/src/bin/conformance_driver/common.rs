//! What both modes share: lines in, answers out, and the calls that need no client.

use std::io::Write;
use std::time::Duration;

use leaf_client::pool::{Pool, PoolStats};
use leaf_client::{Error, Ids, Layout, Options, Run, default_socket_path};
use serde_json::{Value, json};

use crate::messages;

/// The result of a line: what goes into `ok`, or into `error`.
pub type Outcome = Result<Value, Value>;

/// One line.
#[derive(Debug, Clone)]
pub struct Line(pub Value);

impl Line {
    /// Reads a line.
    pub fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub fn id(&self) -> u64 {
        self.0["id"].as_u64().expect("an id")
    }

    pub fn op(&self) -> &str {
        self.text("op")
    }

    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_else(|| panic!("no {name}: {}", self.0))
    }

    /// A number of 32 bits. One that does not fit is the highest, which the daemon refuses.
    pub fn number(&self, name: &str) -> u32 {
        let number = self.0[name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", self.0));
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    pub fn ms(&self, name: &str) -> Option<Duration> {
        self.0[name].as_u64().map(Duration::from_millis)
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.ms("timeout_ms")
    }

    /// The options that it names.
    pub fn options(&self) -> Options {
        let mut options = match self.0["socket"].as_str() {
            Some(path) => Options::at(path),
            None => Options::new(),
        };
        if let Some(timeout) = self.timeout() {
            options = options.timeout(timeout);
        }
        let (min, max) = (self.ms("backoff_min_ms"), self.ms("backoff_max_ms"));
        if min.is_some() || max.is_some() {
            let min = min.unwrap_or(Duration::from_millis(5));
            options = options.backoff(min, max.unwrap_or(Duration::from_millis(500)));
        }
        options
    }

    /// The pool that it describes.
    pub fn pool(&self) -> Result<Pool, Error> {
        let mut builder = match self.0["tag"].as_str() {
            Some(tag) => Pool::tag(tag),
            None => Pool::snowflake(),
        };
        builder = builder.options(self.options());
        if self.0["min_chunk"].is_u64() {
            builder = builder.min_chunk(self.number("min_chunk"));
        }
        if self.0["max_chunk"].is_u64() {
            builder = builder.max_chunk(self.number("max_chunk"));
        }
        if let Some(age) = self.ms("max_age_ms") {
            builder = builder.max_age(age);
        }
        builder.build()
    }
}

/// Writes the answer to a line.
pub fn answer(id: u64, outcome: Outcome) {
    let line = match outcome {
        Ok(ok) => json!({"id": id, "ok": ok}),
        Err(error) => json!({"id": id, "error": error}),
    };
    let mut output = std::io::stdout().lock();
    // The runner may be gone.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// What the driver is.
pub fn about(mode: &str, concurrent: bool) -> Value {
    json!({
        "language": "Rust", "mode": mode, "version": env!("CARGO_PKG_RUST_VERSION"),
        "concurrent": concurrent, "cancels": concurrent, "forks": true, "pools": true,
    })
}

/// The ops that need no client; none for others.
pub fn without_client(line: &Line) -> Option<Outcome> {
    Some(match line.op() {
        "socket_path" => Ok(json!({"path": default_socket_path().display().to_string()})),
        "encode" => Ok(messages::encode(&line.0)),
        "decode_response" => messages::decode(line.text("hex")),
        "decode_id" => decode_id(line.text("layout"), line.text("value")),
        _ => return None,
    })
}

fn decode_id(layout: &str, value: &str) -> Outcome {
    let invalid = |why: String| plain_error("invalid", &why);
    let layout: Layout = layout.parse().map_err(|error| invalid(format!("{error}")))?;
    let id: u64 = value.parse().map_err(|error| invalid(format!("{error}")))?;
    let decoded = layout.decode(id).map_err(|error| invalid(format!("{error}")))?;
    Ok(json!({
        "unix_ms": decoded.unix_ms.to_string(), "worker": decoded.worker.to_string(),
        "sequence": decoded.sequence.to_string(),
    }))
}

/// An error that no call has returned.
pub fn plain_error(kind: &str, message: &str) -> Value {
    json!({"kind": kind, "message": message, "temporary": false})
}

/// The error of a client or pool that was closed, which in Rust means dropped.
pub fn closed() -> Value {
    plain_error("closed", "the client was closed")
}

/// The error of a call.
pub fn error(error: &Error) -> Value {
    let kind = match error {
        Error::Refused(_) => "refused",
        Error::Unavailable { .. } => "unavailable",
        Error::DeadlineExceeded { .. } => "deadline",
        Error::Protocol(_) => "protocol",
        Error::Invalid(_) => "invalid",
        Error::Forked => "forked",
        Error::Unsupported { .. } => "unsupported",
        _ => "unknown",
    };
    let temporary = error.is_temporary();
    let mut value = json!({"kind": kind, "message": error.to_string(), "temporary": temporary});
    if let Error::Refused(refusal) = error {
        let name = match refusal.code().name() {
            "Other" => "Unknown",
            name => name,
        };
        value["number"] = json!(refusal.code);
        value["name"] = json!(name);
        value["retry_after_ms"] = json!(refusal.retry_after_ms);
        value["detail"] = json!(refusal.detail.to_string());
    }
    value
}

/// The outcome of a call for one ID.
pub fn one(result: Result<u64, Error>) -> Outcome {
    result.map(|id| json!({"runs": [[id.to_string(), 1]]})).map_err(|failed| error(&failed))
}

/// The outcome of a call for several IDs.
pub fn many(result: Result<Ids, Error>) -> Outcome {
    let runs = |ids: Ids| -> Vec<Value> {
        ids.runs().iter().map(|Run { first, count }| json!([first.to_string(), count])).collect()
    };
    result.map(|ids| json!({"runs": runs(ids)})).map_err(|failed| error(&failed))
}

/// Statistics of a pool.
pub fn stats(stats: PoolStats) -> Value {
    let text = |number: u64| number.to_string();
    json!({
        "issued": text(stats.issued), "leased": text(stats.leased), "held": text(stats.held),
        "lost": text(stats.lost), "refills": text(stats.refills),
        "failures": text(stats.failures), "waits": text(stats.waits), "chunk": text(stats.chunk),
    })
}

/// What a child of a fork returns.
#[expect(unsafe_code, reason = "fork")]
pub fn in_child(work: impl FnOnce() -> Outcome) -> Outcome {
    use std::io::{Read, pipe};
    let (mut result, mut sink) = pipe().expect("a pipe");
    // SAFETY: the child does what this test is about, and ends without what its parent does at its end.
    match unsafe { nix::unistd::fork() }.expect("a child") {
        nix::unistd::ForkResult::Child => {
            drop(result);
            let value = match work() {
                Ok(ok) => json!({"ok": ok}),
                Err(error) => json!({"error": error}),
            };
            let sent = sink.write_all(value.to_string().as_bytes()).is_ok();
            // SAFETY: as above.
            unsafe { nix::libc::_exit(i32::from(!sent)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(sink);
            let mut text = String::new();
            result.read_to_string(&mut text).expect("the child's result");
            nix::sys::wait::waitpid(child, None).expect("the child");
            let value: Value = serde_json::from_str(&text).expect("the child has a result");
            match value.get("ok") {
                Some(ok) => Ok(ok.clone()),
                None => Err(value["error"].clone()),
            }
        }
    }
}
