//! The requests of `protocol/malformed.json` and the answers that leafd has to give.
//! `protocol/README.md` describes the format.

use serde::{Deserialize, Deserializer, de::Error};

use crate::binaries::workspace;

/// A request that breaks the protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Malformed {
    /// The unique name of the entry.
    pub name: String,
    /// Whether to send it before the handshake; otherwise it follows a `Hello` and its answer.
    #[serde(rename = "state", deserialize_with = "is_before_hello")]
    pub before_hello: bool,
    /// The bytes to send.
    #[serde(rename = "send", deserialize_with = "joined")]
    pub bytes: Vec<u8>,
    /// The expected answer.
    pub answer: Answer,
    /// Whether leafd closes the connection after the answer.
    pub closes: bool,
    /// The rule that the request breaks.
    pub why: String,
}

/// The error that leafd answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The request ID.
    #[serde(deserialize_with = "number")]
    pub id: u64,
    /// The error's number.
    pub error: u16,
    /// The error's name.
    pub name: String,
    /// The error's detail with the default configuration.
    #[serde(deserialize_with = "number")]
    pub detail: u64,
}

/// Every entry of the file.
#[must_use]
pub fn entries() -> Vec<Malformed> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        protocol_version: u16,
        malformed: Vec<Malformed>,
    }
    let path = workspace().join("protocol/malformed.json");
    let text = std::fs::read_to_string(path).expect("protocol/malformed.json");
    let file: File = serde_json::from_str(&text).expect("the format of protocol/malformed.json");
    assert_eq!(file.protocol_version, leaf_client::wire::VERSION);
    file.malformed
}

fn is_before_hello<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match String::deserialize(from)?.as_str() {
        "before-hello" => Ok(true),
        "after-hello" => Ok(false),
        other => Err(D::Error::custom(format!("{other:?} is not a state"))),
    }
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn joined<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, deny_unknown_fields)]
    enum Piece {
        Once(String),
        Repeated { hex: String, times: usize },
    }
    let mut bytes = Vec::new();
    for piece in Vec::<Piece>::deserialize(from)? {
        let (hex, times) = match piece {
            Piece::Once(hex) => (hex, 1),
            Piece::Repeated { hex, times } => (hex, times),
        };
        let part =
            part(&hex).ok_or_else(|| D::Error::custom(format!("{hex:?} is not hexadecimal")))?;
        bytes.extend(part.repeat(times));
    }
    Ok(bytes)
}

fn part(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .filter(|char| *char != ' ')
        .map(|char| char.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
