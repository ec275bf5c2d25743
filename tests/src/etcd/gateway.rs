//! The JSON gateway of a member, for tests that look at keys often: each call of `etcdctl` is a process.
//! Without TLS and without a user.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::PATIENCE;

/// A member that says nothing for this long is asked again.
const ANSWER: Duration = Duration::from_secs(10);

/// A key with its value, as etcd has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdKey {
    /// The whole key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// How often it was written since it was made, from 1 on.
    pub version: i64,
    /// The revision that wrote it last.
    pub revision: i64,
    /// The lease with which it ends; 0 if it has none.
    pub lease: i64,
}

/// A 64-bit number, which JSON has as a text. The gateway leaves out a 0.
fn number(value: &Value) -> i64 {
    value.as_str().map_or(0, |text| text.parse().expect("a number"))
}

fn text(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
    String::from_utf8(bytes).expect("text")
}

/// A key or a value in a request.
pub(super) fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

impl EtcdKey {
    fn of(found: &Value) -> Self {
        Self {
            key: text(&found["key"]),
            value: text(&found["value"]),
            version: number(&found["version"]),
            revision: number(&found["mod_revision"]),
            lease: number(&found["lease"]),
        }
    }

    /// Those in an answer to a range.
    pub(super) fn all(answer: &Value) -> Vec<Self> {
        answer["kvs"].as_array().into_iter().flatten().map(Self::of).collect()
    }
}

/// Sends a request. What comes is the body of the answer.
fn send(
    port: u16,
    path: &str,
    request: &Value,
    limit: Duration,
) -> io::Result<BufReader<TcpStream>> {
    let body = request.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(limit))?;
    // By HTTP/1.0, the body ends with the connection.
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if !line.contains(" 200 ") {
        return Err(io::Error::other(line));
    }
    while !line.trim().is_empty() {
        line.clear();
        answer.read_line(&mut line)?;
    }
    Ok(answer)
}

/// Asks a member.
pub(super) fn ask(port: u16, path: &str, request: &Value) -> io::Result<Value> {
    let mut body = String::new();
    send(port, path, request, ANSWER)?.read_to_string(&mut body)?;
    serde_json::from_str(&body).map_err(io::Error::other)
}

/// When each revision came, as somebody sees it who watches all keys of leafd: etcd does not record when a
/// key was written.
#[derive(Debug)]
pub struct EtcdWatch {
    times: Arc<Mutex<HashMap<i64, u64>>>,
}

impl EtcdWatch {
    /// Watches a member until it ends.
    pub(super) fn start(port: u16) -> Self {
        let (key, range_end) = (encode("/leafd/"), encode("/leafd0"));
        let request = json!({ "create_request": { "key": key, "range_end": range_end } });
        // A day: nobody may write for long.
        let limit = Duration::from_secs(86_400);
        let events = send(port, "/v3/watch", &request, limit).expect("a member that serves");
        let mut events = events.lines().map_while(Result::ok);
        let created = events.next().expect("an answer");
        assert!(created.contains("\"created\":true"), "{created}");
        let times = Arc::new(Mutex::new(HashMap::new()));
        let seen = Arc::clone(&times);
        std::thread::spawn(move || {
            for line in events {
                let now_ms = now_ms();
                let answer: Value = serde_json::from_str(&line).expect("JSON");
                let events = answer["result"]["events"].as_array().into_iter().flatten();
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend(events.map(|event| (number(&event["kv"]["mod_revision"]), now_ms)));
            }
        });
        Self { times }
    }

    /// When a revision came, in ms since 1970.
    #[must_use]
    pub fn came_ms(&self, revision: i64) -> u64 {
        let began = Instant::now();
        loop {
            let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(came_ms) = times.get(&revision) {
                return *came_ms;
            }
            drop(times);
            assert!(began.elapsed() < PATIENCE, "nobody saw revision {revision}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// This host's clock, in ms since 1970. The members have the same one.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time")
}
