//! Which of several databases to try, and in which order. Plain values; the time comes in.

use std::time::Duration;

/// A database that nobody used for this long is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(3);

/// The longest pause between two looks at a failing database.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What is known of one database.
#[derive(Debug, Clone, Default)]
struct Member {
    /// Why its last call failed; none if it works.
    fails: Option<String>,
    /// How often it has failed since it worked.
    failures: u32,
    /// When to look at it.
    look_at: Duration,
    /// A look is on its way.
    is_looked_at: bool,
}

/// The databases in the order of the list.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![Member::default(); count])
    }

    /// The ones that work, in the order of the list, and then the others: all hosts prefer the same one,
    /// so that the IDs of a tag rise together.
    pub(super) fn order(&self) -> Vec<usize> {
        let fails = |index: &usize| self.0.get(*index).is_some_and(|it| it.fails.is_some());
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|index| fails(index));
        order
    }

    /// Whether this one worked when it was last used.
    pub(super) fn works(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|member| member.fails.is_none())
    }

    /// A call succeeded, or failed because of one row. Returns whether that is news.
    pub(super) fn worked(&mut self, index: usize, now: Duration) -> bool {
        let Some(member) = self.0.get_mut(index) else { return false };
        member.look_at = now + LOOK_EVERY;
        member.failures = 0;
        member.fails.take().is_some()
    }

    /// A call found the database down. Returns whether that is news.
    pub(super) fn failed(&mut self, index: usize, now: Duration, why: &str) -> bool {
        let Some(member) = self.0.get_mut(index) else { return false };
        let pause = Duration::from_secs(1) * 2_u32.pow(member.failures.min(4));
        member.failures = member.failures.saturating_add(1);
        member.look_at = now + pause.min(LONGEST_PAUSE);
        member.fails.replace(why.to_owned()).is_none()
    }

    /// The databases to look at now.
    pub(super) fn poll_looks(&mut self, now: Duration) -> Vec<usize> {
        let due = self.0.iter_mut().enumerate();
        let due = due.filter(|(_, member)| !member.is_looked_at && member.look_at <= now);
        due.map(|(index, member)| {
            member.is_looked_at = true;
            index
        })
        .collect()
    }

    /// A look has ended; its outcome comes by the other calls.
    pub(super) fn looked(&mut self, index: usize) {
        if let Some(member) = self.0.get_mut(index) {
            member.is_looked_at = false;
        }
    }

    /// The ones that fail, each with the reason.
    pub(super) fn failing(&self) -> impl Iterator<Item = (usize, &str)> {
        let members = self.0.iter().enumerate();
        members.filter_map(|(index, member)| Some((index, member.fails.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_failing_one_comes_last_until_it_works_again() {
        let mut members = Members::new(3);
        assert_eq!(members.order(), [0, 1, 2]);
        assert!(members.failed(0, SECOND, "down"));
        assert!(!members.failed(0, SECOND, "still down"));
        assert_eq!((members.order(), members.works(0)), (vec![1, 2, 0], false));
        assert_eq!(members.failing().collect::<Vec<_>>(), [(0, "still down")]);
        assert!(members.worked(0, 2 * SECOND) && !members.worked(0, 3 * SECOND));
        assert_eq!(members.order(), [0, 1, 2]);
    }

    #[test]
    fn idle_and_failing_ones_are_looked_at_and_one_look_at_a_time() {
        let mut members = Members::new(2);
        assert_eq!(members.poll_looks(SECOND), [0, 1]);
        assert_eq!(members.poll_looks(100 * SECOND), [0; 0]);
        members.worked(0, SECOND);
        members.failed(1, SECOND, "down");
        members.looked(0);
        members.looked(1);
        assert_eq!(members.poll_looks(2 * SECOND), [1]);
        members.looked(1);
        assert_eq!(members.poll_looks(4 * SECOND), [0, 1]);
    }

    #[test]
    fn a_database_that_stays_down_is_looked_at_every_10_s() {
        let mut members = Members::new(1);
        let mut looks = 0;
        for second in 0..1000_u32 {
            let now = second * SECOND;
            for index in members.poll_looks(now) {
                looks += 1;
                members.failed(index, now, "down");
                members.looked(index);
            }
        }
        assert!((100..=110).contains(&looks), "{looks}");
    }
}
