//! A plain client of Redis: it sends a command and reads the answer. It blocks, like the rest of the
//! harness.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::PATIENCE;

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: there is no such key or field.
    Nil,
    /// A number.
    Integer(i64),
    /// A text, or the value of a key.
    Text(String),
    /// Several answers.
    List(Vec<Self>),
}

impl Answer {
    /// The text or the number, as text. None if there is nothing.
    #[must_use]
    pub fn text(self) -> Option<String> {
        match self {
            Self::Nil => None,
            Self::Integer(number) => Some(number.to_string()),
            Self::Text(text) => Some(text),
            Self::List(list) => panic!("not a text: {list:?}"),
        }
    }

    /// The answers in a list, as texts.
    #[must_use]
    pub fn texts(self) -> Vec<String> {
        match self {
            Self::List(list) => list.into_iter().filter_map(Self::text).collect(),
            other => panic!("not a list: {other:?}"),
        }
    }
}

trait Stream: Read + Write {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A connection.
pub(super) struct Commands(BufReader<Box<dyn Stream>>);

impl Commands {
    /// Connects to the socket of a server, where no password is needed.
    pub(super) fn at(socket: &Path, limit: Duration) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(limit))?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Connects to a port of this host.
    pub(super) fn at_port(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Sends a command and returns the answer, or the error of the server or of the connection.
    pub(super) fn ask(&mut self, command: &[&str]) -> Result<Answer, String> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word.bytes());
            bytes.extend(b"\r\n");
        }
        let sent = self.0.get_mut().write_all(&bytes);
        sent.map_err(|error| error.to_string())?;
        self.read()
    }

    fn read(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(|error| error.to_string())?;
        let line = line.strip_suffix("\r\n").ok_or("the connection has ended")?;
        let kind = line.chars().next();
        let rest = line.get(1..).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(|_| format!("not a number: {rest}"));
        match kind {
            Some('+') => Ok(Answer::Text(rest.to_owned())),
            Some('-') => Err(rest.to_owned()),
            Some(':') => Ok(Answer::Integer(number()?)),
            Some('$' | '*') if number()? < 0 => Ok(Answer::Nil),
            Some('$') => {
                let mut bytes = vec![0; usize::try_from(number()?).expect("a length") + 2];
                self.0.read_exact(&mut bytes).map_err(|error| error.to_string())?;
                bytes.truncate(bytes.len() - 2);
                Ok(Answer::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Some('*') => {
                (0..number()?).map(|_| self.read()).collect::<Result<_, _>>().map(Answer::List)
            }
            _ => Err(format!("not an answer: {line:?}")),
        }
    }
}
