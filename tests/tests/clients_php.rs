//! The client for PHP: its package, the example of its README, its own checks, and the conformance suite.

use leafd_tests::conformance::Language;

static PHP: Language = Language::new("php", &[("PHP", "sync")]);

#[test]
fn the_example_of_the_readme_prints_an_id() {
    PHP.runs_the_example_of_its_readme();
}

#[test]
fn its_own_checks_pass() {
    PHP.passes_its_own_checks();
}

#[test]
fn no_id_comes_twice_from_workers_of_fpm_that_are_killed_and_whose_requests_are_cut_off() {
    PHP.passes("fpm");
}

#[test]
fn every_scenario_has_the_outcome_that_the_table_shows() {
    PHP.has_the_outcomes_of_the_table();
}
