//! A name server for pods: every name leads to this host. With it the names of a manifest are
//! looked up by what the image has for that.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The port is fixed, so each test process has an address of its own.
#[derive(Debug)]
pub struct Names {
    address: Ipv4Addr,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Names {
    /// The one that the tests of this process share.
    ///
    /// # Panics
    /// When this is not root, whose the port is.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Names> = OnceLock::new();
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

    /// Where it answers.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// All names that somebody has asked for.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name that a query is for, and the answer (RFC 1035).
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
    // A response without errors, recursion available; one question, and one answer or none.
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(question);
    if is_address {
        // The question's name, its type and class, for 60 s, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some((name, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_and_of_other_types_nothing() {
        let mut query =
            b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x02db\x07example\0\0\x01\0\x01".to_vec();
        let (name, told) = answer(&query).expect("an answer");
        assert_eq!(name, "db.example");
        assert!(
            told.starts_with(b"\x12\x34\x81\x80\0\x01\0\x01") && told.ends_with(&[127, 0, 0, 1])
        );
        let kind = query.len() - 3;
        query[kind] = 28;
        let (_, told) = answer(&query).expect("an answer");
        assert!(told.starts_with(b"\x12\x34\x81\x80\0\x01\0\0") && told.len() == query.len());
        assert_eq!(answer(&query[..20]), None);
    }
}
