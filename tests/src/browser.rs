//! A real Chromium without a window, driven by Debian's chromedriver over the WebDriver protocol.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::HttpPlace;
use crate::{PATIENCE, binaries, cleanup};

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    place: HttpPlace,
    session: String,
    _folder: tempfile::TempDir,
}

/// The key that moves the focus on, as WebDriver writes it.
pub const TAB: &str = "\u{e004}";

/// The key that submits a form.
pub const ENTER: &str = "\u{e007}";

/// A browser starts slowly on a busy machine.
const START: Duration = Duration::from_secs(180);

const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Reaches no other host, whatever a page asks for; names of tests are this host.
    "--host-resolver-rules=MAP rebound.example 127.0.0.1,MAP localhost 127.0.0.1,\
     MAP *.example ~NOTFOUND",
    "--window-size=1280,900",
];

impl Browser {
    /// Starts a browser with a profile of its own.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        cleanup::kill_later(folder.path());
        let log = folder.path().join("log");
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(&log).expect("a log"))
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts: install chromium and chromium-driver");
        let port = port_in(&log);
        let place = HttpPlace::Port(([127, 0, 0, 1], port).into());
        let mut this = Self { driver, place, session: String::new(), _folder: folder };
        let profile = this._folder.path().join("profile");
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags},
            "timeouts": {"script": 60_000, "pageLoad": 60_000},
        }}});
        let made = this.send("POST", "/session", &wanted).expect("a session");
        this.session = made["sessionId"].as_str().expect("its ID").to_owned();
        this
    }

    fn send(&self, method: &str, path: &str, document: &Value) -> Result<Value, String> {
        let text = if method == "POST" { document.to_string() } else { String::new() };
        let length = text.len();
        let rest = format!(
            "Content-Type: application/json; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{text}"
        );
        let client = self.place.connect().with_headers("Host: localhost\r\n");
        let answer = client.with_patience(START).try_ask(method, path, &rest);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {path}"));
        let value = answer.json()["value"].clone();
        if answer.status == 200 { Ok(value) } else { Err(value.to_string()) }
    }

    fn post(&self, path: &str, document: &Value) -> Result<Value, String> {
        self.send("POST", &format!("/session/{}{path}", self.session), document)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url})).unwrap_or_else(|why| panic!("{url}: {why}"));
    }

    /// Runs the body of a function in the page, and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        let document = json!({"script": script, "args": []});
        self.post("/execute/sync", &document).unwrap_or_else(|why| panic!("{script}: {why}"))
    }

    /// Waits until the body of a function returns true in the page.
    #[track_caller]
    pub fn wait_for(&self, what: &str, script: &str) {
        let began = Instant::now();
        let document = json!({"script": script, "args": []});
        loop {
            // A page that is about to be replaced may answer with an error.
            let found = self.post("/execute/sync", &document);
            if found == Ok(Value::Bool(true)) {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "gave up waiting: {what}: {found:?}\n{}",
                self.run("return document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The text of the first element that a selector finds.
    #[must_use]
    pub fn text(&self, selector: &str) -> String {
        let found = self.run(&format!("return document.querySelector({selector:?}).textContent"));
        found.as_str().unwrap_or_else(|| panic!("{selector}: {found}")).to_owned()
    }

    /// Types on the keyboard: characters, and keys such as [`TAB`].
    pub fn keys(&self, text: &str) {
        let presses = text.chars().flat_map(|key| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let presses: Vec<_> = presses.collect();
        let document = json!({"actions": [{"type": "key", "id": "keyboard", "actions": presses}]});
        self.post("/actions", &document).expect("the keys are typed");
    }

    /// Sends a command of Chromium's own protocol.
    fn command(&self, name: &str, parameters: &Value) -> Value {
        let document = json!({"cmd": name, "params": parameters});
        self.post("/goog/cdp/execute", &document).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    /// Makes the window this wide, in CSS pixels. A window could not be as narrow as a telephone.
    pub fn set_width(&self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Has the user prefer a dark page, or a light one.
    pub fn set_dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Saves a picture of the whole page in the target folder, as `page/NAME.png`.
    pub fn save_picture(&self, name: &str) -> PathBuf {
        let folder = binaries::folder().join("page");
        std::fs::create_dir_all(&folder).expect("a folder for pictures");
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.command("Page.captureScreenshot", &whole);
        let path = folder.join(name).with_extension("png");
        let text = picture["data"].as_str().expect("a picture");
        std::fs::write(&path, decoded(text)).expect("the picture is written");
        path
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.send("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The script of axe-core, which `tests/run` installs.
#[must_use]
pub fn axe() -> String {
    let target = binaries::folder().join("../axe/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&target).unwrap_or_else(|error| {
        panic!("{}: {error}; install it as tests/run does", target.display())
    })
}

/// The port that chromedriver says it listens at.
fn port_in(log: &Path) -> u16 {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let said = text.split_once("was started successfully on port ");
        if let Some((port, _)) = said.and_then(|(_, rest)| rest.split_once('.')) {
            return port.parse().expect("a port");
        }
        assert!(began.elapsed() < START, "chromedriver does not start: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.bytes().filter(|byte| *byte != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).expect("a digit of base64");
        bits = bits << 6 | u32::try_from(value).expect("six bits");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        assert_eq!(decoded("bGVhZg=="), b"leaf");
        assert_eq!(decoded("AP8Q"), [0, 255, 16]);
        assert_eq!(decoded(""), [0; 0]);
    }
}
