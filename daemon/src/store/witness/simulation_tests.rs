//! What holds in every history of a fleet on a database that loses what it has confirmed.

use super::mutation::{self, Mutation};
use super::simulation::SimulatedFleet;

/// The length of a history.
const STEPS: usize = 800;

/// Histories for each run, and for `LEAF_TESTS_LONG=1`.
const HISTORIES: [u64; 2] = [1_500, 100_000];

/// How many histories a mutation may need to be found.
const FOUND_WITHIN: u64 = 20_000;

fn run(seed: u64) -> SimulatedFleet {
    let mut fleet = SimulatedFleet::new(seed);
    for _ in 0..STEPS {
        fleet.step();
    }
    fleet
}

#[test]
fn whatever_a_database_loses_no_id_comes_twice_and_every_host_leases_again() {
    let is_long = std::env::var_os("LEAF_TESTS_LONG").is_some();
    let (mut leases, mut losses) = (0, 0);
    for seed in 0..HISTORIES[usize::from(is_long)] {
        let mut fleet = run(seed);
        assert_eq!(fleet.duplicates, 0, "seed {seed}");
        assert!(fleet.recovers(), "seed {seed}: a host is locked out");
        assert_eq!(fleet.duplicates, 0, "seed {seed}, at the end");
        leases += fleet.leases;
        losses += fleet.losses;
    }
    println!("{leases} leases, {losses} losses");
    assert!(leases > 5_000 && losses > 1_000, "{leases} leases, {losses} losses");
}

#[test]
fn the_simulation_finds_every_rule_that_is_switched_off() {
    for mutation in Mutation::ALL {
        mutation::set(Some(mutation));
        let found = (0..FOUND_WITHIN).find(|seed| run(*seed).duplicates > 0);
        mutation::set(None);
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} is not noticed");
    }
}
