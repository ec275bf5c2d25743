//! A name server for pods that resolves every name to this host. With it the image's own resolver
//! looks up the names of a manifest.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A running name server. The port of DNS is fixed, so each test process uses an address of its own.
#[derive(Debug)]
pub struct NameServer {
    address: Ipv4Addr,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl NameServer {
    /// The name server that all tests of this process share. It needs root, for its port.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<NameServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let taken = (0..100).find_map(|_| {
            let address = Ipv4Addr::new(127, fastrand::u8(1..=254), fastrand::u8(..), 53);
            Some((address, UdpSocket::bind((address, 53)).ok()?))
        });
        let (address, socket) = taken.expect("an address");
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut query) {
                let Some((name, answer)) = query.get(..len).and_then(answer) else { continue };
                noted.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                let _ = socket.send_to(&answer, from);
            }
        });
        Self { address, asked }
    }

    /// The address on which it answers.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// All names that were looked up.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name in a query, and the answer to it (RFC 1035).
fn answer(query: &[u8]) -> Option<(String, Vec<u8>)> {
    let (mut name, mut at) = (String::new(), 12);
    loop {
        let len = usize::from(*query.get(at)?);
        at += 1;
        if len == 0 {
            break;
        }
        let label = query.get(at..at + len)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(label));
        at += len;
    }
    let question = query.get(12..at + 4)?;
    let is_address = question.ends_with(&[0, 1, 0, 1]);
    // A response without an error, recursion available, one question, and at most one answer.
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(question);
    if is_address {
        // The question's name, type and class; valid for 60 s; an address of four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some((name, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_for_an_address_is_answered_and_one_for_another_type_gets_no_record() {
        let mut query =
            b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x02db\x07example\0\0\x01\0\x01".to_vec();
        let (name, reply) = answer(&query).expect("an answer");
        assert_eq!(name, "db.example");
        assert!(
            reply.starts_with(b"\x12\x34\x81\x80\0\x01\0\x01") && reply.ends_with(&[127, 0, 0, 1])
        );
        let kind = query.len() - 3;
        query[kind] = 28;
        let (_, reply) = answer(&query).expect("an answer");
        assert!(reply.starts_with(b"\x12\x34\x81\x80\0\x01\0\0") && reply.len() == query.len());
        assert_eq!(answer(&query[..20]), None);
    }
}
