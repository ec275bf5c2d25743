//! A small HTTP client, over TCP or a Unix socket, which also sends what no client would. Every answer
//! to a whole request is checked against leafd's OpenAPI document.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::PATIENCE;
use crate::daemon::Home;
use crate::log::Log;
use crate::openapi;

/// Where a daemon serves HTTP.
#[derive(Debug, Clone)]
pub enum HttpPlace {
    /// By TCP.
    Port(SocketAddr),
    /// On a Unix socket.
    Socket(PathBuf),
}

impl HttpPlace {
    /// The port of the daemon that was started last in this folder, as its log says.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self::in_log(&home.log(), 1)
    }

    /// The port of the daemon with this log, after it has started this many times.
    #[must_use]
    pub fn in_log(log: &Log<'_>, starts: usize) -> Self {
        let log = log.wait_times("serving HTTP; try: ", starts);
        let line =
            log.lines().rfind(|line| line.contains("serving HTTP; try: ")).expect("the line");
        let (_, url) = line.split_once("http://").expect("an address in the line");
        let address = url.split('/').next().unwrap_or_default();
        Self::Port(address.parse().unwrap_or_else(|_| panic!("{line}")))
    }

    /// The address, of a place by TCP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Port(address) => *address,
            Self::Socket(path) => panic!("{} is not by TCP", path.display()),
        }
    }

    /// Connects.
    #[must_use]
    pub fn connect(&self) -> HttpClient {
        self.try_connect().unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Connects, unless nobody listens.
    pub fn try_connect(&self) -> io::Result<HttpClient> {
        let stream = match self {
            Self::Port(address) => HttpStream::Tcp(TcpStream::connect(address)?),
            Self::Socket(path) => HttpStream::Unix(UnixStream::connect(path)?),
        };
        Ok(HttpClient::over(stream))
    }

    /// Sends a `GET` on a connection of its own.
    #[must_use]
    pub fn get(&self, path: &str) -> HttpAnswer {
        self.connect().get(path)
    }

    /// Sends a request with a JSON document on a connection of its own.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, document: &str) -> HttpAnswer {
        self.connect().send(method, path, document)
    }

    /// Gets an ID of a tag as a caller of Java Leaf does.
    #[must_use]
    pub fn leaf_id(&self, tag: &str) -> u64 {
        let answer = self.get(&format!("/api/segment/get/{tag}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text().parse().expect("an ID")
    }
}

/// A connection.
#[derive(Debug)]
pub enum HttpStream {
    /// By TCP.
    Tcp(TcpStream),
    /// On a Unix socket.
    Unix(UnixStream),
}

impl Read for HttpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for HttpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client with one connection.
#[derive(Debug)]
pub struct HttpClient {
    stream: HttpStream,
    input: Vec<u8>,
    /// Headers of every request, each with its line end.
    headers: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// The value of a header, if there is one.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status and that nobody may cache the answer. A refusal is a problem document that
    /// says the same, and a 503 or 429 says when to try again.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?} {}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        if status >= 400 && !self.body.is_empty() {
            assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
            assert_eq!(self.json()["status"], status, "{self:?}");
        }
        if status == 503 || status == 429 {
            let seconds = self.header("retry-after").and_then(|text| text.parse::<u32>().ok());
            assert!(seconds.is_some_and(|seconds| seconds > 0), "{self:?}");
        }
        self
    }

    /// Asserts a refusal by an error of leafd's.
    #[track_caller]
    pub fn expect_error(self, status: u16, name: &str) -> Self {
        let this = self.expect(status);
        assert_eq!(this.json()["title"], name, "{}", this.text());
        this
    }
}

impl HttpClient {
    fn over(stream: HttpStream) -> Self {
        match &stream {
            HttpStream::Tcp(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
                stream.set_nodelay(true).expect("no delay");
            }
            HttpStream::Unix(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
            }
        }
        Self { stream, input: Vec::new(), headers: "Host: localhost\r\n".to_owned() }
    }

    /// Replaces the headers of every request, each of which ends with `\r\n`.
    #[must_use]
    pub fn with_headers(mut self, headers: &str) -> Self {
        self.headers = headers.to_owned();
        self
    }

    /// Waits this long for an answer, instead of [`PATIENCE`].
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        match &self.stream {
            HttpStream::Tcp(stream) => stream.set_read_timeout(Some(patience)),
            HttpStream::Unix(stream) => stream.set_read_timeout(Some(patience)),
        }
        .expect("a limit");
        self
    }

    /// Shows a token with every request.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with_headers(&format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"))
    }

    /// Sends a `GET`.
    #[must_use]
    pub fn get(&mut self, path: &str) -> HttpAnswer {
        self.ask("GET", path, "")
    }

    /// Sends a request with a JSON document.
    #[must_use]
    pub fn send(&mut self, method: &str, path: &str, document: &str) -> HttpAnswer {
        let length = document.len();
        let more =
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{document}");
        self.ask_with(method, path, &more)
    }

    /// Sends a request without a body.
    #[must_use]
    pub fn ask(&mut self, method: &str, path: &str, headers: &str) -> HttpAnswer {
        self.ask_with(method, path, &format!("{headers}\r\n"))
    }

    fn ask_with(&mut self, method: &str, path: &str, rest: &str) -> HttpAnswer {
        let answer = self.try_ask(method, path, rest);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {path}"));
        if method != "HEAD" {
            let kind = answer.header("content-type").unwrap_or_default();
            openapi::check(method, path, answer.status, kind, &answer.body);
        }
        answer
    }

    /// Sends a request, with `rest` after the usual headers. `None` if the connection ends.
    pub fn try_ask(&mut self, method: &str, path: &str, rest: &str) -> Option<HttpAnswer> {
        let request = format!("{method} {path} HTTP/1.1\r\n{}{rest}", self.headers);
        self.stream.write_all(request.as_bytes()).ok()?;
        self.receive_to(method)
    }

    /// Sends bytes. The daemon may have closed the connection meanwhile.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Ends the output of this side.
    pub fn finish(&self) {
        let _ = match &self.stream {
            HttpStream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            HttpStream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// The next answer; `None` if the connection ends before one.
    pub fn receive(&mut self) -> Option<HttpAnswer> {
        self.receive_to("GET")
    }

    fn receive_to(&mut self, method: &str) -> Option<HttpAnswer> {
        loop {
            let head_end = loop {
                if let Some(at) = find(&self.input, b"\r\n\r\n") {
                    break at;
                }
                self.read_more()?;
            };
            let head: Vec<u8> = self.input.drain(..head_end + 4).collect();
            let (status, headers) = parsed(&head);
            let mut answer = HttpAnswer { status, headers, body: Vec::new() };
            if status == 100 {
                continue;
            }
            if method != "HEAD" && status != 304 && status != 204 {
                answer.body = self.receive_body(&answer)?;
            }
            return Some(answer);
        }
    }

    fn receive_body(&mut self, answer: &HttpAnswer) -> Option<Vec<u8>> {
        if answer.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            loop {
                let at = loop {
                    if let Some(at) = find(&self.input, b"\r\n") {
                        break at;
                    }
                    self.read_more()?;
                };
                let line: Vec<u8> = self.input.drain(..at + 2).collect();
                let text = String::from_utf8_lossy(&line);
                let size = usize::from_str_radix(text.trim(), 16).expect("the size of a chunk");
                while self.input.len() < size + 2 {
                    self.read_more()?;
                }
                body.extend(self.input.drain(..size));
                self.input.drain(..2);
                if size == 0 {
                    return Some(body);
                }
            }
        }
        let length = answer.header("content-length").expect("a length");
        let length: usize = length.parse().expect("a number");
        while self.input.len() < length {
            self.read_more()?;
        }
        Some(self.input.drain(..length).collect())
    }

    fn read_more(&mut self) -> Option<()> {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                Some(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("no answer in {PATIENCE:?}")
            }
            Err(_) => None,
        }
    }

    /// Waits until the daemon has sent this text. Returns what came before it, and the text.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = find(&self.input, text.as_bytes()) {
                let before: Vec<u8> = self.input.drain(..at + text.len()).collect();
                return String::from_utf8_lossy(&before).into_owned();
            }
            let more = self.read_more();
            more.unwrap_or_else(|| panic!("the end before {text:?}: {:?}", self.input));
        }
    }

    /// Everything until the daemon closes the connection.
    #[must_use]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.read_more().is_some() {}
        std::mem::take(&mut self.input)
    }
}

/// The answers in everything that a connection has received. With `maybe_head`, an answer may be one to
/// `HEAD`, which has no body.
///
/// # Errors
/// If the bytes are anything but whole answers.
pub fn answers_in(bytes: &[u8], maybe_head: bool) -> Result<Vec<HttpAnswer>, String> {
    let (mut rest, mut answers) = (bytes, Vec::new());
    while !rest.is_empty() {
        let end = find(rest, b"\r\n\r\n").ok_or("half a head")? + 4;
        let (head, after) = rest.split_at(end);
        if !head.starts_with(b"HTTP/1.") || !head.is_ascii() {
            return Err("no answer".to_owned());
        }
        rest = after;
        let (status, headers) = parsed(head);
        if status == 100 {
            continue;
        }
        let mut answer = HttpAnswer { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding").is_some() {
            return Err("an answer in chunks".to_owned());
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        let length: usize = length.ok_or("an answer without a length")?;
        if !maybe_head || !(rest.is_empty() || rest.starts_with(b"HTTP/1.")) {
            let (body, after) = rest.split_at_checked(length).ok_or("half a body")?;
            (answer.body, rest) = (body.to_vec(), after);
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn parsed(head: &[u8]) -> (u16, Vec<(String, String)>) {
    let text = std::str::from_utf8(head).expect("a head in ASCII");
    let mut lines = text.split("\r\n");
    let first = lines.next().expect("a first line");
    assert!(first.starts_with("HTTP/1."), "{text}");
    let status = first.split(' ').nth(1).and_then(|text| text.parse().ok());
    let headers = lines.filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{text}"));
        (name.to_lowercase(), value.trim().to_owned())
    });
    (status.unwrap_or_else(|| panic!("{text}")), headers.collect())
}

impl Home {
    /// Makes leafd serve HTTP by TCP, on a port that the system chooses.
    #[must_use]
    pub fn with_http(self) -> Self {
        self.with("HTTP_LISTEN", "127.0.0.1:0")
    }

    /// The path of the Unix socket for HTTP.
    #[must_use]
    pub fn http_socket(&self) -> PathBuf {
        let socket = self.socket();
        socket.parent().unwrap_or(Path::new(".")).join("http.sock")
    }

    /// Makes leafd serve HTTP on a Unix socket that every user may open.
    #[must_use]
    pub fn with_http_socket(self) -> Self {
        let path = self.http_socket();
        self.with("HTTP_SOCKET", &path.to_string_lossy()).with("HTTP_SOCKET_MODE", "0666")
    }
}
