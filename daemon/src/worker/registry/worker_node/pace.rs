//! How long the worker IDs of the table last. A plain rule.

/// What is known of the table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NodeSurvey {
    /// The highest number; 0 if there is no row.
    pub(crate) highest: u64,
    /// An earlier number, and how long ago it was given (ms).
    pub(crate) earlier: Option<(u64, u64)>,
}

const DAY_MS: u64 = 86_400_000;

/// A warning if the numbers last for fewer days than this.
const WARN_DAYS: u64 = 365;

/// What an operator should know of the worker IDs that are left.
pub(crate) fn verdict(survey: &NodeSurvey, max_worker: u64) -> Option<String> {
    let NodeSurvey { highest, earlier } = *survey;
    let left = max_worker.saturating_sub(highest);
    if left == 0 {
        return None;
    }
    let used = format!("the table has given {highest} of {max_worker} worker IDs");
    // Less than a day says nothing about a year.
    let Some((number, ago_ms)) = earlier.filter(|(_, ago_ms)| *ago_ms >= DAY_MS) else {
        let is_little = left < max_worker / 10;
        return is_little.then(|| format!("{used}; each start takes one"));
    };
    let starts = u128::from(highest.saturating_sub(number));
    let days = u128::from(left) * u128::from(ago_ms) / u128::from(DAY_MS);
    let days = days.checked_div(starts)?;
    (days < u128::from(WARN_DAYS)).then(|| {
        let (over, per_day) = (ago_ms / DAY_MS, starts * u128::from(DAY_MS) / u128::from(ago_ms));
        format!(
            "{used}. At the pace of the last {over} days ({per_day} starts a day) they last for \
             {days} days: choose a registry that reclaims worker IDs (worker.registry) before"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 4_194_303;

    fn said(highest: u64, earlier: Option<(u64, u64)>) -> String {
        verdict(&NodeSurvey { highest, earlier }, MAX).unwrap_or_default()
    }

    #[test]
    fn a_year_ahead_the_pace_of_the_last_weeks_gives_the_days_that_are_left() {
        let month = 30 * DAY_MS;
        let told = said(3_000_000, Some((2_700_000, month)));
        assert!(
            told.contains("last 30 days (10000 starts a day) they last for 119 days"),
            "{told}"
        );
        // 1,194,303 left at 3,000 a day: 398 days.
        assert_eq!(said(3_000_000, Some((2_910_000, month))), "");
        assert_eq!(said(10, Some((0, month))), "");
        assert_eq!(said(4_000_000, Some((4_000_000, month))), "", "nobody starts");
    }

    #[test]
    fn a_first_busy_day_says_nothing_unless_little_is_left() {
        assert_eq!(said(100_000, Some((0, DAY_MS - 1))), "");
        assert_eq!(said(100_000, None), "");
        assert!(said(MAX - 400_000, None).contains("each start takes one"));
        assert_eq!(said(MAX, None), "", "that is another message");
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let survey = NodeSurvey { highest: 1, earlier: Some((0, u64::MAX)) };
        assert_eq!(verdict(&survey, u64::MAX), None);
        let survey = NodeSurvey { highest: u64::MAX - 1, earlier: Some((0, DAY_MS)) };
        assert!(verdict(&survey, u64::MAX).is_some());
    }
}
