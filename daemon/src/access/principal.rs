//! Who asks. Each transport says it once per connection; the rules go by it.

use std::fmt;

/// A caller, as its transport knows it. Nobody is ever known by a process ID, which may be another
/// process' by the time leafd looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// The other groups; none where the kernel does not say.
    pub others: Option<Vec<u32>>,
}

impl Principal {
    /// Whether it is known to be in one of `groups`.
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
    fn a_principal_is_in_its_group_and_in_the_others_that_are_known() {
        let one = Principal { uid: 1, gid: 2, others: Some(vec![3]) };
        assert!(one.is_in(&[2]) && one.is_in(&[9, 3]) && !one.is_in(&[1, 9]));
        assert!(!Principal { others: None, ..one }.is_in(&[3]));
    }
}
