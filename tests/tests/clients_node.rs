//! The client for Node: its package, the example of its README, its own checks, and the conformance suite.

use leafd_tests::conformance::Language;

static NODE: Language = Language::new("node", &[("Node", "async")]);

#[test]
fn the_example_of_the_readme_prints_an_id() {
    NODE.runs_the_example_of_its_readme();
}

#[test]
fn its_own_checks_pass() {
    NODE.passes_its_own_checks();
}

#[test]
fn every_scenario_has_the_outcome_that_the_table_shows() {
    NODE.has_the_outcomes_of_the_table();
}
