//! What etcd's JSON gateway takes and answers. A 64-bit number is a string there, a key or a value base64,
//! and an answer leaves out what is false, 0 or empty. Nothing here sends anything.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 64-bit number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Int(pub(super) i64);

/// A key or a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blob(pub(super) Vec<u8>);

impl Serialize for Int {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Int;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit number, in quotes or not")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Int, E> {
                // IDs of clusters and members are unsigned.
                let number = text.parse::<i64>().or(text.parse::<u64>().map(u64::cast_signed));
                number.map(Int).map_err(|_| E::custom(format!("{text:?} is not a 64-bit number")))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Int, E> {
                Ok(Int(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Int, E> {
                Ok(Int(number.cast_signed()))
            }
        }
        from.deserialize_any(Digits)
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD
            .decode(text)
            .map(Blob)
            .map_err(|error| D::Error::custom(format!("base64: {error}")))
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct RangeRequest {
    pub(super) key: Blob,
    /// Not included; a single key without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_end: Option<Blob>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) keys_only: bool,
}

impl RangeRequest {
    pub(super) fn one(key: Vec<u8>) -> Self {
        Self { key: Blob(key), range_end: None, keys_only: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PutRequest {
    pub(super) key: Blob,
    pub(super) value: Blob,
    /// 0 is none.
    pub(super) lease: Int,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DeleteRequest {
    pub(super) key: Blob,
}

/// The transaction that wrote a key last has this number; 0 means that there is no such key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Unchanged {
    target: &'static str,
    key: Blob,
    mod_revision: Int,
}

impl Unchanged {
    pub(super) fn since(key: Vec<u8>, modified: i64) -> Self {
        Self { target: "MOD", key: Blob(key), mod_revision: Int(modified) }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) enum Operation {
    #[serde(rename = "request_range")]
    Range(RangeRequest),
    #[serde(rename = "request_put")]
    Put(PutRequest),
    #[serde(rename = "request_delete_range")]
    Delete(DeleteRequest),
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct TxnRequest {
    pub(super) compare: Vec<Unchanged>,
    pub(super) success: Vec<Operation>,
}

#[derive(Debug, Serialize)]
pub(super) struct GrantRequest {
    #[serde(rename = "TTL")]
    pub(super) seconds: Int,
    #[serde(rename = "ID")]
    pub(super) lease: Int,
}

#[derive(Debug, Serialize)]
pub(super) struct LeaseRequest {
    #[serde(rename = "ID")]
    pub(super) lease: Int,
}

#[derive(Serialize)]
pub(super) struct AuthenticateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

/// Who answered, and how new the data was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    pub(super) cluster_id: Int,
    pub(super) member_id: Int,
    pub(super) revision: Int,
    pub(super) raft_term: Int,
}

/// A key with its value and its history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct KeyValue {
    pub(super) key: Blob,
    pub(super) value: Blob,
    pub(super) create_revision: Int,
    pub(super) mod_revision: Int,
    /// Counts the writes since the key was made, from 1 on.
    pub(super) version: Int,
    pub(super) lease: Int,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RangeAnswer {
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PutAnswer {
    pub(super) header: Header,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TxnAnswer {
    pub(super) header: Header,
    pub(super) succeeded: bool,
    pub(super) responses: Vec<OperationAnswer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OperationAnswer {
    pub(super) response_range: RangeAnswer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LeaseAnswer {
    /// How long the lease lasts, in seconds; 0 if there is no such lease.
    #[serde(rename = "TTL")]
    pub(super) seconds: Int,
}

/// The first message of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Streamed {
    pub(super) result: Option<LeaseAnswer>,
    pub(super) error: Option<Refusal>,
}

#[derive(Deserialize)]
pub(super) struct AuthenticateAnswer {
    pub(super) token: String,
}

/// What an answer is that only says that it was done.
#[derive(Debug, Deserialize)]
pub(super) struct Done {}

/// An error of etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    /// A code of gRPC.
    pub(super) code: i32,
    pub(super) message: String,
    /// The same, in older versions.
    pub(super) error: String,
}

impl Refusal {
    pub(super) fn text(&self) -> &str {
        if self.message.is_empty() { &self.error } else { &self.message }
    }
}

/// Reads an answer.
///
/// # Errors
/// What is wrong with it, in words, with its beginning.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body)
        .map_err(|error| format!("{:?} is not what etcd answers: {error}", beginning(body)))
}

/// The beginning of a text.
pub(super) fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(100).collect()
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
