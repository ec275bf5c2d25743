//! The client for Python: its package, the example of its README, its own checks, and the conformance suite.

use leafd_tests::conformance::Language;

static PYTHON: Language =
    Language::new("python", &[("Python, asyncio", "async"), ("Python", "sync")]);

#[test]
fn the_example_of_the_readme_prints_an_id() {
    PYTHON.runs_the_example_of_its_readme();
}

#[test]
fn its_own_checks_pass() {
    PYTHON.passes_its_own_checks();
}

#[test]
fn preforking_servers_repeat_no_id() {
    PYTHON.passes("prefork");
}

#[test]
fn every_scenario_has_the_outcome_that_the_table_shows() {
    PYTHON.has_the_outcomes_of_the_table();
}
