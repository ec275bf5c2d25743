//! What went wrong while threads took IDs: calls that had to wait, and errors by number and name. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use leaf_client::Error;

/// Calls that found no ID at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) count: u64,
    /// The sum over all threads.
    pub(super) total: Duration,
    pub(super) longest: Duration,
}

impl Waits {
    pub(super) fn add(&mut self, wait: Duration) {
        self.merge(Self { count: 1, total: wait, longest: wait });
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
    }
}

/// All errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) count: u64,
    /// The last one, in words.
    pub(super) message: String,
}

/// Errors by number and name. An error of the client itself has the number 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ErrorTally(BTreeMap<(u16, &'static str), Repeated>);

impl ErrorTally {
    pub(super) fn add(&mut self, error: &Error) {
        let (key, message) = match error {
            Error::Refused(refusal) => ((refusal.code, refusal.code().name()), &refusal.message),
            other => ((0, name(other)), &other.to_string()),
        };
        self.count(key, 1, message.clone());
    }

    pub(super) fn merge(&mut self, others: Self) {
        for (key, Repeated { count, message }) in others.0 {
            self.count(key, count, message);
        }
    }

    fn count(&mut self, key: (u16, &'static str), count: u64, message: String) {
        let kind = self.0.entry(key).or_insert(Repeated { count: 0, message: String::new() });
        kind.count += count;
        kind.message = message;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|kind| kind.count).sum()
    }

    /// The number, the name, and what is known of each kind of error.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (u16, &'static str, &Repeated)> {
        self.0.iter().map(|(&(number, name), kind)| (number, name, kind))
    }
}

/// The name of an error that the client itself found.
fn name(error: &Error) -> &'static str {
    match error {
        Error::Unavailable { .. } => "Unavailable",
        Error::DeadlineExceeded { .. } => "DeadlineExceeded",
        Error::Protocol(_) => "Protocol",
        Error::Invalid(_) => "Invalid",
        Error::Unsupported { .. } => "Unsupported",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leaf_client::wire::{ErrorCode, WireError};

    #[test]
    fn errors_of_one_number_count_together_and_those_of_the_client_have_names() {
        let refused = |message| Error::Refused(WireError::new(ErrorCode::QuotaExceeded, message));
        let late = Error::DeadlineExceeded { call: "segment", timeout: Duration::from_secs(5) };
        let (mut one, mut other) = (ErrorTally::default(), ErrorTally::default());
        one.add(&refused("first"));
        other.add(&refused("second"));
        other.add(&late);
        one.merge(other);
        let kinds: Vec<_> = one.kinds().collect();
        let quota = Repeated { count: 2, message: "second".to_owned() };
        let late = Repeated { count: 1, message: late.to_string() };
        assert_eq!(kinds, [(0, "DeadlineExceeded", &late), (312, "QuotaExceeded", &quota)]);
        assert_eq!(one.total(), 3);
    }

    #[test]
    fn waits_add_up_and_the_longest_is_known() {
        let mut waits = Waits::default();
        let ms = Duration::from_millis;
        [3, 9, 1].into_iter().for_each(|wait| waits.add(ms(wait)));
        assert_eq!(waits, Waits { count: 3, total: ms(13), longest: ms(9) });
    }
}
