//! Logs to systemd's journal in its own protocol: one datagram per event, with a field for each
//! value, so that `journalctl LEAFD_TAG=orders` finds it. The thread that logs encodes the event;
//! the log's own thread sends it.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use nix::sys::stat::fstat;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::lines::shows_target;

/// The journal's socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// The variable in which systemd passes device and inode of the journal's socket, if that is a
/// unit's standard error.
const STREAM: &str = "JOURNAL_STREAM";

/// Whether standard error goes to the journal.
pub(super) fn is_standard_error() -> bool {
    std::env::var(STREAM).is_ok_and(|stream| is(&stream, io::stderr()))
}

/// Whether `file` is the `stream` given by device and inode. Somebody may have redirected standard
/// error without unsetting the variable.
fn is(stream: &str, file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Encodes events as datagrams.
pub(super) struct JournalLayer {
    out: NonBlocking,
}

impl JournalLayer {
    pub(super) const fn new(out: NonBlocking) -> Self {
        Self { out }
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // One write is one datagram. It never waits: if the queue is full, the event is lost.
        let _ = self.out.clone().write(&encode(event));
    }
}

fn encode(event: &Event<'_>) -> Vec<u8> {
    let metadata = event.metadata();
    let mut values = Values::default();
    event.record(&mut values);
    let mut out = Vec::with_capacity(256);
    // MESSAGE comes first: `text` finds it at the beginning.
    let target = match shows_target(metadata) {
        true => format!("{}: ", metadata.target()),
        false => String::new(),
    };
    put(&mut out, "MESSAGE", &format!("{target}{}{}", values.message, values.pairs));
    let priority = match *metadata.level() {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    };
    put(&mut out, "PRIORITY", priority);
    put(&mut out, "SYSLOG_IDENTIFIER", "leafd");
    put(&mut out, "TARGET", metadata.target());
    if let Some(file) = metadata.file() {
        put(&mut out, "CODE_FILE", file);
    }
    if let Some(line) = metadata.line() {
        put(&mut out, "CODE_LINE", &line.to_string());
    }
    for (name, value) in &values.fields {
        put(&mut out, name, value);
    }
    out
}

/// Adds a field. A line break ends a field, so a value that contains one has its length in front.
fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

/// The values of an event.
#[derive(Debug, Default)]
struct Values {
    message: String,
    /// The values other than the message as text, because `journalctl` shows only MESSAGE.
    pairs: String,
    /// The same values, one by one.
    fields: Vec<(String, String)>,
}

impl Values {
    fn add(&mut self, field: &Field, shown: &str, value: String) {
        if field.name() == "message" {
            self.message = value;
            return;
        }
        let _ = write!(self.pairs, " {}={shown}", field.name());
        self.fields.push((journal_name(field.name()), value));
    }
}

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, &format!("{value:?}"), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        self.add(field, &value.clone(), value);
    }
}

/// A field name that the journal accepts and that no other program uses.
fn journal_name(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    // The journal accepts names of up to 64 characters.
    let name: String = name.chars().map(letter).take(58).collect();
    format!("LEAFD_{name}")
}

/// Sends datagrams to the journal. If the journal does not accept one, writes it to `fallback` as
/// text.
#[derive(Debug)]
pub(super) struct JournalWriter<W> {
    socket: Option<UnixDatagram>,
    path: PathBuf,
    fallback: W,
}

impl<W: Write> JournalWriter<W> {
    pub(super) fn new(path: &Path, fallback: W) -> Self {
        Self { socket: UnixDatagram::unbound().ok(), path: path.to_owned(), fallback }
    }

    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        // By its path each time: a restarted journal has a new socket.
        socket.send_to(datagram, &self.path).map(drop)
    }
}

impl<W: Write> Write for JournalWriter<W> {
    fn write(&mut self, datagram: &[u8]) -> io::Result<usize> {
        if self.send(datagram).is_err() {
            self.fallback.write_all(text(datagram).as_bytes())?;
        }
        Ok(datagram.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.fallback.flush()
    }
}

/// The message of a datagram, on one line.
fn text(datagram: &[u8]) -> String {
    let simple = datagram
        .strip_prefix(b"MESSAGE=")
        .map(|rest| rest.split(|byte| *byte == b'\n').next().unwrap_or_default());
    let long = || {
        let (length, rest) = datagram.strip_prefix(b"MESSAGE\n")?.split_first_chunk()?;
        rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)
    };
    let message = simple.or_else(long).unwrap_or_default();
    format!("{}\n", String::from_utf8_lossy(message).replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Parses a datagram like the journal does.
    fn fields(mut datagram: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !datagram.is_empty() {
            let end = datagram.iter().position(|byte| *byte == b'\n').unwrap();
            let (line, rest) = (&datagram[..end], &datagram[end + 1..]);
            let line = String::from_utf8(line.to_vec()).unwrap();
            if let Some((name, value)) = line.split_once('=') {
                fields.push((name.to_owned(), value.to_owned()));
                datagram = rest;
            } else {
                let length = u64::from_le_bytes(rest[..8].try_into().unwrap());
                let end = 8 + usize::try_from(length).unwrap();
                fields.push((line, String::from_utf8(rest[8..end].to_vec()).unwrap()));
                assert_eq!(rest[end], b'\n');
                datagram = &rest[end + 1..];
            }
        }
        fields
    }

    #[test]
    fn an_event_is_one_datagram_with_a_field_for_each_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        journal.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (writer, _guard) =
            tracing_appender::non_blocking(JournalWriter::new(&path, io::sink()));
        let subscriber = tracing_subscriber::registry().with(JournalLayer::new(writer));
        let line = line!() + 2;
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(tag = "orders", count = 7, of.path = %"/a b", "it is\nso");
            tracing::error!(error = ?Some("x\ny"), "failed");
            let nothing: Option<&str> = None;
            tracing::info!(target: "audit", uid = 7, tag = Some("a"), old = nothing, "changed");
        });
        let mut buffer = [0; 4096];
        let mut next = || {
            let length = journal.recv(&mut buffer).unwrap();
            fields(&buffer[..length])
        };
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let expected = [
            ("MESSAGE", "it is\nso tag=\"orders\" count=7 of.path=/a b"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "leafd"),
            ("TARGET", module_path!()),
            ("CODE_FILE", file!()),
            ("CODE_LINE", &line.to_string()),
            ("LEAFD_TAG", "orders"),
            ("LEAFD_COUNT", "7"),
            ("LEAFD_OF_PATH", "/a b"),
        ];
        assert_eq!(next(), expected.map(owned));
        let second = next();
        assert_eq!(second[0], owned(("MESSAGE", "failed error=Some(\"x\\ny\")")));
        assert_eq!(second[1], owned(("PRIORITY", "3")));
        let audit = next();
        assert_eq!(audit[0], owned(("MESSAGE", "audit: changed uid=7 tag=\"a\"")));
        assert_eq!(audit[3], owned(("TARGET", "audit")));
        assert!(audit.ends_with(&[("LEAFD_UID", "7"), ("LEAFD_TAG", "a")].map(owned)));
    }

    #[test]
    fn what_the_journal_does_not_accept_goes_to_standard_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut journal = JournalWriter::new(&path, Vec::new());
        let mut log = |message: &str| {
            let mut datagram = Vec::new();
            put(&mut datagram, "MESSAGE", message);
            put(&mut datagram, "PRIORITY", "6");
            journal.write_all(&datagram).unwrap();
            String::from_utf8(std::mem::take(&mut journal.fallback)).unwrap()
        };
        assert_eq!(log("first count=1"), "first count=1\n");
        assert_eq!(log("second\nline"), "second line\n");
        // The journal starts, and accepts whatever fits into a datagram.
        let _journal = UnixDatagram::bind(&path).unwrap();
        assert_eq!(log("third"), "");
        let long = "x".repeat(1_000_000);
        assert_eq!(log(&long).trim_end(), long);
    }

    #[test]
    fn leafd_recognises_the_journal_by_device_and_inode() {
        use std::os::unix::fs::MetadataExt;

        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("stream")).unwrap();
        let meta = file.metadata().unwrap();
        assert!(is(&format!("{}:{}", meta.dev(), meta.ino()), &file));
        let other = std::fs::File::create(folder.path().join("other")).unwrap();
        assert!(!is(&format!("{}:{}", meta.dev(), meta.ino()), &other));
        assert!(!is("", &file));
    }

    #[test]
    fn the_journal_accepts_the_field_names() {
        assert_eq!(journal_name("retry-after.ms"), "LEAFD_RETRY_AFTER_MS");
        assert_eq!(journal_name(&"x".repeat(100)).len(), 64);
    }
}
