//! What the figures of all tags come to. Pure: tags come in one after the other.

use std::time::Duration;

use wildmatch::WildMatch;

use crate::forecast::IdLimit;
use crate::ids::BizTag;
use crate::segment::messages::TagFigures;

/// The most tags with series of their own. Each has some fifteen, and every series costs a monitoring
/// system memory.
const MOST_CHOSEN: usize = 1000;

/// A tag with series of its own.
#[derive(Debug, Clone)]
pub(super) struct ChosenTag {
    pub(super) name: BizTag,
    pub(super) issued: u64,
    pub(super) leases: u64,
    pub(super) max_id: u64,
    pub(super) remaining: u64,
    pub(super) seconds_left: Option<u64>,
    pub(super) since_lease: Duration,
    pub(super) waiting: u64,
    pub(super) step: u64,
    pub(super) is_failing: bool,
    /// IDs per second, if enough is known.
    pub(super) growth: Option<f64>,
    /// When it reaches each limit, in seconds since 1970.
    pub(super) limits: [Option<f64>; 3],
}

/// All tags, at one moment.
#[derive(Debug, Default)]
pub(super) struct TagOverview {
    pub(super) tags: u64,
    pub(super) waiting: u64,
    /// `None` if no tag is asked for.
    pub(super) lowest_seconds_left: Option<u64>,
    pub(super) overdue: u64,
    pub(super) failing: u64,
    pub(super) near: [u64; 3],
    pub(super) earliest: [Option<f64>; 3],
    pub(super) chosen: Vec<ChosenTag>,
    pub(super) left_out: u64,
}

impl TagOverview {
    /// Takes in a tag that grows by `growth` IDs per second. `patterns` choose the tags with series of
    /// their own.
    pub(super) fn add(
        &mut self,
        now_s: u64,
        tag: &TagFigures<'_>,
        growth: Option<f64>,
        patterns: &[WildMatch],
    ) {
        self.tags += 1;
        self.failing += u64::from(tag.is_failing);
        if let Some(left) = tag.seconds_left {
            let lowest = self.lowest_seconds_left.map_or(left, |lowest| lowest.min(left));
            self.lowest_seconds_left = Some(lowest);
            // The first attempt of a lease takes a moment, and with many tags one is always under way.
            let is_stuck = tag.is_leasing && tag.is_failing;
            self.overdue += u64::from(is_stuck && tag.since_lease.as_secs() > left);
        }
        let max_id = tag.high_water_mark;
        let reached =
            |limit: IdLimit| growth.and_then(|rate| limit.reached_at(now_s, max_id, rate));
        let limits = IdLimit::ALL.map(reached);
        // A tag that nobody has used for a week never reaches a limit.
        let is_used = growth.is_none_or(|rate| rate > 0.0);
        for (near, limit) in self.near.iter_mut().zip(IdLimit::ALL) {
            *near += u64::from(is_used && limit.is_near(max_id));
        }
        for (earliest, reached) in self.earliest.iter_mut().zip(limits) {
            *earliest = [*earliest, reached].into_iter().flatten().reduce(f64::min);
        }
        if !patterns.iter().any(|pattern| pattern.matches(tag.name.as_str())) {
            return;
        }
        if self.chosen.len() >= MOST_CHOSEN {
            self.left_out += 1;
            return;
        }
        self.chosen.push(ChosenTag {
            name: tag.name.clone(),
            issued: tag.issued,
            leases: tag.leases,
            max_id,
            remaining: tag.remaining,
            seconds_left: tag.seconds_left,
            since_lease: tag.since_lease,
            waiting: tag.waiting,
            step: tag.step,
            is_failing: tag.is_failing,
            growth,
            limits,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &BizTag) -> TagFigures<'_> {
        TagFigures {
            name,
            high_water_mark: 1000,
            remaining: 100,
            issued: 900,
            leases: 1,
            waiting: 0,
            step: 1000,
            seconds_left: None,
            since_lease: Duration::from_secs(60),
            is_leasing: false,
            is_failing: false,
        }
    }

    fn tag(name: &str) -> BizTag {
        BizTag::new(name).unwrap()
    }

    #[test]
    fn the_tag_that_runs_out_first_counts_whatever_metrics_tags_says() {
        let (name, mut all) = (tag("orders"), TagOverview::default());
        for seconds_left in [None, Some(700), Some(30), Some(90)] {
            all.add(0, &TagFigures { seconds_left, ..figures(&name) }, None, &[]);
        }
        assert_eq!((all.tags, all.lowest_seconds_left), (4, Some(30)));
        assert!(all.chosen.is_empty() && all.left_out == 0);
    }

    #[test]
    fn a_lease_is_overdue_if_it_fails_and_the_last_one_is_longer_ago_than_memory_lasts() {
        let name = tag("orders");
        for (is_leasing, is_failing, seconds_left, overdue) in [
            (true, true, Some(59), 1),
            (true, true, Some(60), 0),
            (false, true, Some(1), 0),
            (true, true, None, 0),
            // Its first attempt is under way.
            (true, false, Some(1), 0),
        ] {
            let mut all = TagOverview::default();
            let tag = TagFigures { is_leasing, is_failing, seconds_left, ..figures(&name) };
            all.add(0, &tag, None, &[]);
            assert_eq!(all.overdue, overdue, "{tag:?}");
        }
    }

    #[test]
    fn the_earliest_forecast_is_that_of_the_tag_that_reaches_the_limit_first() {
        let (name, mut all) = (tag("orders"), TagOverview::default());
        let mut add = |high_water_mark, growth| {
            all.add(1000, &TagFigures { high_water_mark, ..figures(&name) }, growth, &[]);
        };
        add((1 << 31) - 100, None);
        add((1 << 31) - 100, Some(1.0));
        add(1 << 31, Some(1000.0));
        add(5, Some(0.0));
        assert_eq!(all.earliest[0], Some(1100.0));
        assert_eq!(all.near, [2, 0, 0]);
    }

    #[test]
    fn a_tag_that_has_not_grown_for_a_week_is_near_no_limit() {
        let (name, mut all) = (tag("orders"), TagOverview::default());
        for growth in [Some(0.0), Some(0.001), None] {
            let high_water_mark = (1 << 31) - 100;
            all.add(1000, &TagFigures { high_water_mark, ..figures(&name) }, growth, &[]);
        }
        assert_eq!(all.near, [2, 0, 0]);
    }

    #[test]
    fn chosen_tags_match_a_pattern_and_are_bounded() {
        let mut all = TagOverview::default();
        let patterns = [WildMatch::new("bill.*"), WildMatch::new("orders")];
        for name in ["orders", "orders2", "bill.a"] {
            all.add(0, &figures(&tag(name)), Some(2.0), &patterns);
        }
        let names: Vec<_> = all.chosen.iter().map(|tag| tag.name.as_str()).collect();
        assert_eq!(names, ["orders", "bill.a"]);
        for number in 0..MOST_CHOSEN {
            all.add(0, &figures(&tag(&format!("bill.{number}"))), None, &patterns);
        }
        assert_eq!((all.chosen.len(), all.left_out), (MOST_CHOSEN, 2));
    }
}
