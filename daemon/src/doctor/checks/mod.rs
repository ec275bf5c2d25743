//! The checks: each function looks at the facts of one matter and adds its findings.

mod daemon;
mod durability;
mod host;
#[cfg(test)]
mod sample;
mod snowflake;
mod state;
mod steps;
mod store;
mod worker;

use super::facts::Facts;
use super::finding::Finding;

/// Adds findings.
type Judge = fn(&Facts, &mut Vec<Finding>);

const JUDGES: [Judge; 9] = [
    daemon::judge,
    host::judge,
    snowflake::judge,
    worker::judge,
    state::judge,
    store::judge,
    durability::judge,
    steps::judge,
    daemon::judge_socket,
];

/// Everything that the checks find, the worst first.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for judge in JUDGES {
        judge(facts, &mut findings);
    }
    findings.sort_by_key(|finding| (finding.level, finding.check));
    findings
}

/// Names the first few of many, as in `a, b, c and 4 more`.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::sample::healthy;
    use super::*;
    use crate::doctor::{Check, Level};

    #[test]
    fn a_healthy_host_gives_nothing_but_ok() {
        let findings = examine(&healthy());
        let worse: Vec<_> = findings.iter().filter(|finding| finding.level != Level::Ok).collect();
        assert!(worse.is_empty(), "{worse:#?}");
        // Everything was checked but what this host does not have.
        let missing: Vec<_> = Check::ALL
            .iter()
            .filter(|check| !findings.iter().any(|finding| finding.check == **check))
            .collect();
        assert_eq!(missing, [&Check::Registry, &Check::JavaLeaf]);
    }

    #[test]
    fn the_worst_findings_come_first() {
        let mut facts = healthy();
        facts.version = "9.9.9";
        facts.daemon = crate::doctor::DaemonFacts::Down("nobody".to_owned());
        let levels: Vec<_> = examine(&facts).iter().map(|finding| finding.level).collect();
        assert_eq!(levels.first(), Some(&Level::Bad));
        assert!(levels.is_sorted(), "{levels:?}");
    }

    #[test]
    fn every_finding_that_is_not_fine_has_a_remedy_or_is_a_mere_note() {
        for facts in super::sample::sick() {
            for finding in examine(&facts) {
                let needs = matches!(finding.level, Level::Bad | Level::Warn);
                assert!(!needs || !finding.remedy.is_empty(), "{finding:#?}");
                assert!(finding.title.chars().count() <= 66, "{}", finding.title);
                assert!(!finding.title.ends_with('.'), "{}", finding.title);
            }
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<_> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(some_of(&names), "a, b, c and 2 more");
        assert_eq!(some_of(names.get(..2).unwrap()), "a, b");
    }
}
