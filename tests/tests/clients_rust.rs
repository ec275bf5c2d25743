//! The Rust clients, asynchronous and blocking, in the conformance suite.

use leafd_tests::conformance::Language;

static RUST: Language =
    Language::new("rust", &[("Rust, async", "async"), ("Rust, blocking", "sync")]);

#[test]
fn every_scenario_has_the_outcome_that_the_table_shows() {
    let driver = env!("CARGO_BIN_EXE_conformance_driver");
    RUST.with_driver(driver).has_the_outcomes_of_the_table();
}
