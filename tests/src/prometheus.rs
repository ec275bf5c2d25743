//! A real Prometheus, of Debian's package `prometheus`, that scrapes daemons of a test.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::instance::Port;
use crate::scrape::get;

/// A running Prometheus. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    port: Port,
}

impl Prometheus {
    /// Starts it in `folder`. It scrapes these daemons every second, as the job `leafd`.
    #[must_use]
    pub fn start(folder: &Path, daemons: &[SocketAddr]) -> Self {
        let port = Port::reserve();
        let targets: Vec<_> = daemons.iter().map(|address| format!("'{address}'")).collect();
        let configuration = format!(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n  \
             - job_name: leafd\n    static_configs:\n      - targets: [{}]\n",
            targets.join(", ")
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, configuration).expect("the configuration");
        let log = File::create(folder.join("prometheus.log")).expect("the log");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log"))
            .stderr(log)
            .spawn()
            .expect("install Debian's package prometheus");
        let mut this = Self { child, port };
        let began = Instant::now();
        while !this.is_ready() {
            let ended = this.child.try_wait().expect("wait");
            let log = || std::fs::read_to_string(folder.join("prometheus.log"));
            assert!(ended.is_none(), "it ended: {ended:?}\n{:?}", log());
            assert!(began.elapsed() < PATIENCE, "it does not get ready\n{:?}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        this
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port.number()).into()
    }

    fn is_ready(&self) -> bool {
        std::net::TcpStream::connect(self.address()).is_ok()
            && get(self.address(), "/-/ready", "*/*").status == 200
    }

    /// The result of an instant query.
    ///
    /// # Errors
    /// With Prometheus's answer, if the query is wrong.
    pub fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => encoded.push(byte.into()),
                other => encoded.push_str(&format!("%{other:02X}")),
            }
        }
        let answer = get(self.address(), &format!("/api/v1/query?query={encoded}"), "*/*");
        let json: Value = serde_json::from_str(&answer.body).map_err(|_| answer.body.clone())?;
        let result = json["data"]["result"].as_array();
        result.filter(|_| answer.status == 200).cloned().ok_or(answer.body)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
