//! Whether there are snowflake IDs, and until when.

use leaf_client::Layout;
use leaf_client::wire::SnowflakeState;

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Check, Finding};
use crate::rfc3339::rfc3339;

const DAY_MS: u64 = 86_400_000;

/// With less than this left, somebody has to plan the next layout.
const YEAR_MS: u64 = 365 * DAY_MS;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    if facts.wants_snowflakes() != Some(true) {
        if facts.wants_snowflakes() == Some(false) {
            out.push(Finding::ok(Check::Snowflake, "snowflake IDs are turned off"));
        }
        return;
    }
    state(facts, out);
    layout(facts, out);
}

fn state(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Snowflake;
    let Some(status) = facts.status() else { return };
    let remedy = "Give this text to `leafctl explain`: each reason has its entry in the runbook.";
    out.push(match &status.snowflake.state {
        SnowflakeState::Serving => Finding::ok(check, "leafd issues snowflake IDs"),
        SnowflakeState::ClockBehind { behind_ms } => {
            Finding::warn(check, "no snowflake IDs until the clock has caught up")
                .because(format!("It is {behind_ms} ms behind the times already used."))
                .remedy("Wait, if it is little. Otherwise see what set the clock back, or ahead.")
        }
        SnowflakeState::Starting { reason } => {
            Finding::warn(check, "no snowflake IDs yet").because(reason.as_str()).remedy(remedy)
        }
        SnowflakeState::Refused { reason } => {
            Finding::bad(check, "no snowflake IDs").because(reason.as_str()).remedy(remedy)
        }
    });
}

fn layout(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Layout;
    let running = facts.status().and_then(|status| status.snowflake.layout.parse::<Layout>().ok());
    let configured = facts.config().map(|config| config.snowflake.layout);
    let Some(layout) = running.or(configured) else { return };
    let end = layout.end_ms();
    let date = rfc3339(end).chars().take(10).collect::<String>();
    let remedy = "Plan a layout with a later epoch now: every host has to change at the same time.";
    out.push(if facts.now_ms < layout.epoch_ms() {
        Finding::bad(check, "the clock is before the layout's epoch")
            .because(format!("{layout} begins on {}.", rfc3339(layout.epoch_ms())))
            .remedy("Set the clock right; if it is right, correct the epoch.")
    } else if end <= facts.now_ms {
        Finding::bad(check, "the layout has ended: there are no snowflake IDs")
            .because(format!("The time field of {layout} ended on {date}."))
            .remedy("Set the clock right; if it is right, choose a layout with a later epoch.")
    } else if end - facts.now_ms < YEAR_MS {
        let days = (end - facts.now_ms) / DAY_MS;
        Finding::warn(check, format!("the layout ends in {days} days, on {date}"))
            .because(format!("There are no snowflake IDs after the time field of {layout}."))
            .remedy(remedy)
    } else {
        Finding::ok(check, format!("the layout lasts until {date}"))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::sample::{healthy, of, running};
    use crate::doctor::{Level, examine};

    #[test]
    fn each_state_without_ids_says_why() {
        let mut facts = healthy();
        let reason = "the worker file is damaged".to_owned();
        for (state, level) in [
            (SnowflakeState::Refused { reason: reason.clone() }, Level::Bad),
            (SnowflakeState::Starting { reason }, Level::Warn),
            (SnowflakeState::ClockBehind { behind_ms: 80 }, Level::Warn),
        ] {
            running(&mut facts).snowflake.state = state;
            let found = of(&facts, Check::Snowflake);
            assert_eq!(found.level, level);
            assert!(found.detail.contains("damaged") || found.detail.contains("80 ms"));
        }
    }

    #[test]
    fn snowflakes_that_are_turned_off_are_fine_and_need_no_layout() {
        let mut facts = healthy();
        let reason = "snowflake IDs are not configured (snowflake.enabled)".to_owned();
        running(&mut facts).snowflake.state = SnowflakeState::Refused { reason };
        assert_eq!(of(&facts, Check::Snowflake).level, Level::Ok);
        assert!(!examine(&facts).iter().any(|finding| finding.check == Check::Layout));
    }

    #[test]
    fn a_layout_that_ends_within_a_year_is_a_warning_and_after_it_bad() {
        let mut facts = healthy();
        let end = Layout::LEAF.end_ms();
        for (now_ms, level) in [
            (end - YEAR_MS, Level::Ok),
            (end - YEAR_MS + 1, Level::Warn),
            (end, Level::Bad),
            (Layout::LEAF.epoch_ms() - 1, Level::Bad),
        ] {
            facts.now_ms = now_ms;
            assert_eq!(of(&facts, Check::Layout).level, level, "{now_ms}");
        }
        facts.now_ms = end - 40 * DAY_MS;
        assert!(of(&facts, Check::Layout).title.contains("in 40 days, on 20"));
    }
}
