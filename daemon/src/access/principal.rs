//! Identifies a caller. Each transport does so once per connection, or once per request where a
//! request can name another caller, and the rules decide by it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::actor::Actor;

/// The name of HTTP in the audit.
pub(crate) const HTTP: &str = "http";

/// A caller, as its transport identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A process of this host, which the kernel identifies.
    Local(LocalUser),
    /// Whoever connects by TCP and shows no token.
    Http(HttpOrigin),
    /// Whoever shows the bearer token of the rule with this name.
    Token(Arc<str>, HttpOrigin),
}

/// Where a caller by HTTP connected from. The rules do not look at it; the audit tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpOrigin {
    /// By TCP.
    Address(SocketAddr),
    /// On the Unix socket, with its user and group.
    User(u32, u32),
    /// On the Unix socket, where the kernel does not tell.
    Unknown,
}

/// The user and the groups of a process. There is no process ID: by the time leafd looks at it, it
/// may belong to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalUser {
    /// Effective user.
    pub(crate) uid: u32,
    /// Effective group.
    pub(crate) gid: u32,
    /// Supplementary groups; `None` if the kernel does not tell them.
    pub(crate) others: Option<Vec<u32>>,
    /// The name of its transport, for the audit.
    pub(crate) transport: &'static str,
}

/// Whom the ledger charges: connections, IDs, waiting requests and refusals count per account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AccountKey {
    User(u32),
    /// All callers by TCP without a token, together.
    Http,
    /// All callers with tokens of one rule, together. The number is made from the rule's name.
    Token(u64),
}

impl Principal {
    /// The caller as the audit names it.
    pub(crate) fn actor(&self) -> Actor {
        match self {
            Self::Local(user) => Actor {
                uid: Some(user.uid),
                gid: Some(user.gid),
                address: None,
                rule: None,
                transport: user.transport,
            },
            Self::Http(origin) => origin.actor(None),
            Self::Token(rule, origin) => origin.actor(Some(Arc::clone(rule))),
        }
    }

    /// Where a caller by HTTP connected from.
    pub(crate) const fn origin(&self) -> HttpOrigin {
        match self {
            Self::Local(user) => HttpOrigin::User(user.uid, user.gid),
            Self::Http(origin) | Self::Token(_, origin) => *origin,
        }
    }

    pub(crate) fn account(&self) -> AccountKey {
        match self {
            Self::Local(user) => AccountKey::User(user.uid),
            Self::Http(_) => AccountKey::Http,
            Self::Token(rule, _) => AccountKey::Token(number_of(rule)),
        }
    }
}

impl HttpOrigin {
    const fn actor(self, rule: Option<Arc<str>>) -> Actor {
        let (uid, gid, address) = match self {
            Self::Address(address) => (None, None, Some(address)),
            Self::User(uid, gid) => (Some(uid), Some(gid), None),
            Self::Unknown => (None, None, None),
        };
        Actor { uid, gid, address, rule, transport: HTTP }
    }
}

impl LocalUser {
    /// Whether the user is in one of `groups`, as far as its groups are known.
    pub(super) fn is_in(&self, groups: &[u32]) -> bool {
        let others = self.others.iter().flatten();
        std::iter::once(&self.gid).chain(others).any(|group| groups.contains(group))
    }
}

impl AccountKey {
    /// The user, if the account is that of one.
    pub(crate) const fn uid(self) -> Option<u32> {
        match self {
            Self::User(uid) => Some(uid),
            Self::Http | Self::Token(_) => None,
        }
    }

    /// A number that no other account has. Users have the numbers below 2^32.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::User(uid) => uid as u64,
            Self::Http => 1 << 32,
            Self::Token(number) => number,
        }
    }
}

/// The same number for the same name in every process, at or above 2^63. Two names of a
/// configuration never have the same one in practice.
fn number_of(rule: &str) -> u64 {
    let bytes = rule.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    bytes | (1 << 63)
}

/// How messages name the caller.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.account().fmt(f)
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "uid {uid}"),
            Self::Http => f.write_str("a caller by HTTP"),
            Self::Token(_) => f.write_str("a caller with this token"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_in_its_effective_and_its_known_supplementary_groups() {
        let one = LocalUser { uid: 1, gid: 2, others: Some(vec![3]), transport: "unix" };
        assert!(one.is_in(&[2]) && one.is_in(&[9, 3]) && !one.is_in(&[1, 9]));
        assert!(!LocalUser { others: None, ..one }.is_in(&[3]));
    }

    #[test]
    fn the_audit_names_a_caller_by_http_by_its_address_or_its_user() {
        let address = "192.0.2.7:40000".parse().unwrap();
        let by_tcp = Principal::Http(HttpOrigin::Address(address)).actor();
        assert_eq!((by_tcp.address, by_tcp.uid, by_tcp.rule), (Some(address), None, None));
        let user = LocalUser { uid: 7, gid: 8, others: None, transport: HTTP };
        let origin = Principal::Local(user).origin();
        let with_token = Principal::Token("operators".into(), origin).actor();
        assert_eq!((with_token.uid, with_token.gid, with_token.address), (Some(7), Some(8), None));
        assert_eq!(with_token.rule.as_deref(), Some("operators"));
    }

    #[test]
    fn every_account_has_a_number_of_its_own() {
        let token = |rule: &str| Principal::Token(rule.into(), HttpOrigin::Unknown).account();
        let accounts =
            [AccountKey::User(0), AccountKey::User(u32::MAX), AccountKey::Http, token("a")];
        let mut numbers: Vec<_> = accounts.iter().map(|account| account.number()).collect();
        numbers.extend((0..1000).map(|nth| token(&format!("rule {nth}")).number()));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), accounts.len() + 1000);
        assert_eq!(token("billing"), token("billing"));
    }
}
