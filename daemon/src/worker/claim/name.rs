//! The names of records: an identity, and the number that the registry gave it, which is the worker
//! ID. The text is what Java Leaf has in ZooKeeper.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What an identity cannot have in a node's name: Java Leaf splits names at `-`, ZooKeeper splits
/// paths at `/`. Everything outside ASCII is encoded as well.
const ENCODED: &AsciiSet = &CONTROLS.add(b'-').add(b'/').add(b'%');

/// Digits of a sequence, as ZooKeeper writes it: 2^31 - 1 has as many.
const DIGITS: usize = 10;

/// The name of a node below `forever`, `temporary` or `free`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeName {
    sequence: u64,
    identity: String,
    /// As the registry has it, should somebody have encoded it otherwise.
    text: String,
}

impl NodeName {
    /// The name that leafd gives.
    pub(crate) fn new(identity: &str, sequence: u64) -> Self {
        let text = format!("{}{sequence:010}", prefix(identity));
        Self { sequence, identity: identity.to_owned(), text }
    }

    /// Reads a name; `None` when it is not one of these.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (identity, digits) = text.rsplit_once('-')?;
        if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        // ZooKeeper counts to 2^31 - 1, and then goes below zero.
        let sequence = digits.parse::<i32>().ok().and_then(|number| u64::try_from(number).ok())?;
        let identity = percent_decode_str(identity).decode_utf8_lossy().into_owned();
        Some(Self { sequence, identity, text: text.to_owned() })
    }

    /// The worker ID, if the layout has room for it.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whose it is.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// The name in the tree.
    #[cfg(test)]
    fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What ZooKeeper appends a sequence to.
pub(crate) fn prefix(identity: &str) -> String {
    format!("{}-", utf8_percent_encode(identity, ENCODED))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_read_as_java_leaf_does() {
        let name = NodeName::parse("10.0.0.7:8080-0000000003").unwrap();
        assert_eq!((name.identity(), name.sequence()), ("10.0.0.7:8080", 3));
        assert_eq!(name, NodeName::new("10.0.0.7:8080", 3));
        let java: Vec<&str> = name.as_str().split('-').collect();
        assert_eq!(java, ["10.0.0.7:8080", "0000000003"]);
    }

    #[test]
    fn what_is_no_name_is_none() {
        for text in ["", "a", "a-1", "a-00000000001", "a--000000001", "-2147483648", "a-000000000x"]
        {
            assert_eq!(NodeName::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_identity_survives_and_splits_once_at_the_dash(
            identity in any::<String>(), sequence in 0u64..=2_147_483_647
        ) {
            let name = NodeName::new(&identity, sequence);
            prop_assert_eq!(name.as_str().split('-').count(), 2);
            prop_assert!(!name.as_str().contains('/') && name.as_str().is_ascii());
            prop_assert_eq!(NodeName::parse(name.as_str()), Some(name));
        }
    }
}
