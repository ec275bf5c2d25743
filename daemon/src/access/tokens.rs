//! Bearer tokens: whoever shows one falls under the rule that it belongs to. Pure.

use std::sync::Arc;

use crate::secret::Secret;

/// A token and the name of its rule.
#[derive(Debug, Clone)]
pub(crate) struct BearerToken {
    pub(crate) secret: Secret,
    pub(crate) rule: Arc<str>,
}

/// All tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens(Vec<BearerToken>);

impl Tokens {
    pub(crate) const fn new(tokens: Vec<BearerToken>) -> Self {
        Self(tokens)
    }

    /// The rule of the token `shown`, if it is one. How long this takes depends on the lengths alone,
    /// so that nobody can guess a token byte by byte.
    pub(crate) fn rule_of(&self, shown: &[u8]) -> Option<Arc<str>> {
        let mut found = None;
        for token in &self.0 {
            if is_equal(token.secret.expose().as_bytes(), shown) {
                found = Some(&token.rule);
            }
        }
        found.cloned()
    }
}

/// Compares every byte, whatever the first ones are.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    // The compiler must not leave the loop early.
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_its_rule_and_nothing_else_is_a_token() {
        let token = |secret: &str, rule: &str| BearerToken {
            secret: Secret::new(secret),
            rule: rule.into(),
        };
        let tokens = Tokens::new(vec![token("0123", "a"), token("4567", "b")]);
        assert_eq!(tokens.rule_of(b"4567").as_deref(), Some("b"));
        for wrong in ["", "0", "012", "01234", "0124", "01230123", "\0\0\0\0"] {
            assert_eq!(tokens.rule_of(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Tokens::default().rule_of(b""), None);
    }
}
