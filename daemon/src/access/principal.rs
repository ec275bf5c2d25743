//! Identifies a caller. Each transport does so once per connection, and the rules decide by it.

use std::fmt;

use crate::actor::Actor;

/// A caller, as its transport identifies it. There is no process ID: by the time leafd looks at it,
/// it may belong to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Effective user.
    pub(crate) uid: u32,
    /// Effective group.
    pub(crate) gid: u32,
    /// Supplementary groups; `None` if the kernel does not tell them.
    pub(crate) others: Option<Vec<u32>>,
    /// The name of its transport, for the audit.
    pub(crate) transport: &'static str,
}

impl Principal {
    /// The caller as the audit names it.
    pub(crate) const fn actor(&self) -> Actor {
        let (uid, gid) = (Some(self.uid), Some(self.gid));
        Actor { uid, gid, rule: None, transport: self.transport }
    }

    /// Whether the caller is in one of `groups`, as far as its groups are known.
    pub(super) fn is_in(&self, groups: &[u32]) -> bool {
        let others = self.others.iter().flatten();
        std::iter::once(&self.gid).chain(others).any(|group| groups.contains(group))
    }
}

/// How messages name the caller.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}", self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_in_its_effective_and_its_known_supplementary_groups() {
        let one = Principal { uid: 1, gid: 2, others: Some(vec![3]), transport: "unix" };
        assert!(one.is_in(&[2]) && one.is_in(&[9, 3]) && !one.is_in(&[1, 9]));
        assert!(!Principal { others: None, ..one }.is_in(&[3]));
    }
}
