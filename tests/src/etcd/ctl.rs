//! Debian's `etcdctl`, with which tests do what an operator does.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::certificates::Certificates;

/// How to reach some members.
#[derive(Debug, Clone)]
pub(super) struct Ctl {
    endpoints: Vec<String>,
    options: Vec<String>,
}

impl Ctl {
    pub(super) fn new(endpoints: Vec<String>, certificates: Option<&Certificates>) -> Self {
        let options = certificates.map(options_of).unwrap_or_default();
        Self { endpoints, options }
    }

    /// The same for one member.
    pub(super) fn at(&self, url: &str) -> Self {
        Self { endpoints: vec![url.to_owned()], options: self.options.clone() }
    }

    pub(super) fn authenticate_as(&mut self, user: &str) {
        self.options.push(format!("--user={user}"));
    }

    fn try_run(&self, within: Duration, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        let output = command
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.endpoints.join(",")))
            .arg(format!("--command-timeout={}ms", within.as_millis()))
            .arg(format!("--dial-timeout={}ms", within.as_millis()))
            .args(&self.options)
            .args(arguments)
            .output();
        let output = output.expect("etcdctl, of Debian's package etcd-client");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        if output.status.success() {
            return Ok(text(output.stdout));
        }
        Err(format!("{arguments:?}: {}", text(output.stderr)))
    }

    /// Repeats the command until it succeeds: a leader may just be elected.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        let began = Instant::now();
        loop {
            match self.try_run(PATIENCE, arguments) {
                Ok(text) => return text,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn answers_within(&self, time: Duration) -> bool {
        // A read that every member answers only with the others' consent.
        match self.try_run(time, &["get", "nothing"]) {
            Ok(_) => true,
            Err(error) => error.contains("user name is empty") || error.contains("permission"),
        }
    }

    pub(super) fn leads(&self, url: &str) -> bool {
        let time = Duration::from_secs(5);
        let Ok(text) = self.at(url).try_run(time, &["endpoint", "status", "--write-out=json"])
        else {
            return false;
        };
        let status: Value = serde_json::from_str(&text).expect("JSON");
        let status = &status[0]["Status"];
        status["leader"].is_u64() && status["leader"] == status["header"]["member_id"]
    }

    pub(super) fn keys(&self, prefix: &str) -> BTreeMap<String, String> {
        let text = self.run(&["get", "--prefix", prefix, "--hex", "--write-out=simple"]);
        // A key and its value, in turn, each as \x2f\x6c…
        let lines: Vec<_> = text.lines().map(unhex).collect();
        lines
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair.get(1).cloned().unwrap_or_default()))
            .collect()
    }
}

fn unhex(line: &str) -> String {
    let digits = line.split("\\x").skip(1);
    let bytes = digits.map(|two| u8::from_str_radix(two.trim(), 16).expect("two digits"));
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

fn options_of(certificates: &Certificates) -> Vec<String> {
    let files = [("cacert", "ca.pem"), ("cert", "client.pem"), ("key", "client.key")];
    files.map(|(option, name)| format!("--{option}={}", certificates.file(name))).into()
}
