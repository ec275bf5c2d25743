//! Whether a tag's ranges last long enough for an outage of the store.

use leaf_client::wire::TagStatus;

use super::some_of;
use crate::doctor::facts::{DaemonFacts, Facts};
use crate::doctor::finding::{Check, Finding};
use crate::ids::MAX_STEP;

/// A range that lasts less than this is used up before anybody has noticed that the store is down.
const SHORT_S: u64 = 60;

/// What the remedy aims at.
const AIM_S: u64 = 1800;

/// leafd leases the next range when this share of the present one is left, in percent.
const KEPT: u64 = 90;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Steps;
    let DaemonFacts::Up { tags, .. } = &facts.daemon else { return };
    if facts.has_shared_store() != Some(true) {
        // The embedded store is as near as the state directory.
        out.push(Finding::ok(check, "the embedded store has no outages to survive"));
        return;
    }
    let tags = match tags {
        Ok(tags) => tags,
        Err(why) => {
            out.push(
                Finding::unknown(check, "cannot look at the tags")
                    .because(why.as_str())
                    .remedy("Run this as root, or let a rule of access.rules allow administer."),
            );
            return;
        }
    };
    let short: Vec<(&TagStatus, u64)> = tags
        .iter()
        .filter_map(|tag| Some((tag, rate(tag)?)))
        .filter(|(tag, rate)| {
            tag.row_step.saturating_mul(KEPT) / 100 < rate.saturating_mul(SHORT_S)
        })
        .collect();
    let Some((worst, rate)) = short.iter().max_by_key(|(tag, rate)| rate / tag.row_step.max(1))
    else {
        out.push(Finding::ok(check, "the steps fit the present rates"));
        return;
    };
    let names: Vec<String> = short.iter().map(|(tag, _)| tag.tag.clone()).collect();
    let most = MAX_STEP.min(i32::MAX.unsigned_abs().into());
    let step = (rate.saturating_mul(AIM_S) / KEPT).saturating_mul(100).min(most);
    let step = (step.div_ceil(1000) * 1000).clamp(1, most);
    let lasts = worst.row_step.saturating_mul(KEPT) / 100 / (*rate).max(1);
    let title = match short.len() {
        1 => "a tag's step is too small for its rate".to_owned(),
        count => format!("{count} tags have steps that are too small for their rates"),
    };
    out.push(
        Finding::warn(check, title)
            .because(format!(
                "{}. After a restart, a range of {:?} (step {}, some {rate} IDs/s here) lasts {lasts} s \
                 when the store fails.",
                some_of(&names),
                worst.tag,
                worst.row_step,
            ))
            .remedy(format!(
                "For half an hour: leafctl tag set-step {} {step}",
                worst.tag
            )),
    );
}

/// IDs per second of this host; none if nobody asks, or little can be said.
fn rate(tag: &TagStatus) -> Option<u64> {
    let seconds = tag.seconds_left?;
    // `seconds_left` is rounded down, so this is at most the rate.
    Some(tag.remaining / seconds.saturating_add(1)).filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use crate::doctor::checks::sample::{healthy, of, running, tag};

    fn with(tags: Result<Vec<TagStatus>, String>) -> Facts {
        let mut facts = healthy();
        if let DaemonFacts::Up { tags: known, .. } = &mut facts.daemon {
            *known = tags;
        }
        facts
    }

    fn busy(row_step: u64, remaining: u64, seconds_left: u64) -> TagStatus {
        TagStatus { row_step, remaining, seconds_left: Some(seconds_left), ..tag("orders") }
    }

    #[test]
    fn a_step_that_lasts_less_than_a_minute_is_a_warning_with_a_better_one() {
        // 500 IDs/s: 27,000 IDs last a minute less a tenth.
        let found = of(&with(Ok(vec![busy(1000, 50_000, 99)])), Check::Steps);
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.contains("lasts 1 s"), "{}", found.detail);
        assert!(found.remedy.ends_with("set-step orders 1000000"), "{}", found.remedy);
        for fine in [busy(33_334, 50_000, 99), busy(1000, 0, 0), tag("idle")] {
            assert_eq!(of(&with(Ok(vec![fine])), Check::Steps).level, Level::Ok);
        }
    }

    #[test]
    fn an_absurd_rate_gives_a_step_that_a_row_can_hold() {
        let found = of(&with(Ok(vec![busy(1, u64::MAX, 0)])), Check::Steps);
        let step: u64 = found.remedy.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(step <= 2_147_483_647, "{step}");
    }

    #[test]
    fn tags_that_may_not_be_seen_are_unknown_and_an_embedded_store_is_fine() {
        let mut facts = with(Err("not permitted".to_owned()));
        assert_eq!(of(&facts, Check::Steps).level, Level::Unknown);
        running(&mut facts).segments.store = "sqlite /x".to_owned();
        assert_eq!(of(&facts, Check::Steps).level, Level::Ok);
    }
}
