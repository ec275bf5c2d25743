//! Public IDs of consecutive numbers look like random numbers, and those of homemade schemes do not.

use super::super::*;
use super::randomness::faults;
use super::{key, ring};

const MASK: u64 = u64::MAX >> 1;

/// Where runs begin: the first number, one of some age, a snowflake, and the end of the range.
const FIRSTS: [u64; 4] = [0, 7_000_000_000, 1_305_124_470_726_725_632, (1 << 63) - 20_000];

/// Demands that each of the faults is found.
fn assert_found_out(permute: impl Fn(u64) -> u64, expected: &[&str]) {
    let faults = faults(0, permute);
    for beginning in expected {
        let is_found = faults.iter().any(|fault| fault.starts_with(beginning));
        assert!(is_found, "{beginning} is not among {faults:#?}");
    }
}

#[test]
fn public_ids_of_consecutive_numbers_look_random() {
    let tags = ["", "orders", "注文", "a"];
    for ((first, tag), id) in FIRSTS.into_iter().zip(tags).zip(0..) {
        let ids = KeyRing::new([key(id)]).unwrap().for_tag(tag);
        let faults = faults(first, |number| ids.permute(number));
        assert!(faults.is_empty(), "from {first} of {tag:?}: {faults:#?}");
    }
}

#[test]
fn public_ids_of_two_tags_or_two_keys_do_not_correlate() {
    let orders = ring().for_tag("orders");
    let returns = ring().for_tag("returns");
    let other_key = KeyRing::new([key(1)]).unwrap().for_tag("orders");
    for other in [returns, other_key] {
        let difference = |number| orders.permute(number) ^ other.permute(number);
        let faults = faults(0, difference);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

#[test]
fn a_bare_exclusive_or_is_found_out() {
    let expected = [
        "neighbours differ in 1 bits",
        "bits in which neighbours differ: ",
        "output bit 62: ",
        "change of output bit 0: 19999 of 19999",
        "the difference of neighbours has ",
        "the exclusive or of neighbours has 15 values",
        "rank correlation of outputs with the next ones: ",
        "input bit 0 against output bit 0: 600 of 600",
    ];
    assert_found_out(|number| number ^ 0x5DEE_CE66_D1CE_B00C, &expected);
}

/// The multiplier of the golden ratio, which spreads neighbours best.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[test]
fn a_multiplication_by_an_odd_constant_is_found_out() {
    let expected = [
        "bits in which neighbours differ: ",
        "change of output bit 0: 19999 of 19999",
        "the difference of neighbours has 1 values",
        "rank correlation of outputs with the next ones: ",
        "input bit 62 against output bit 62: 600 of 600",
    ];
    assert_found_out(|number| number.wrapping_mul(MULTIPLIER) & MASK, &expected);
}

#[test]
fn a_multiplication_with_an_exclusive_or_is_found_out() {
    let scheme = |number: u64| (number ^ 0x5DEE_CE66_D1CE_B00C).wrapping_mul(MULTIPLIER) & MASK;
    let expected = [
        "change of output bit 0: 19999 of 19999",
        "the difference of neighbours has ",
        "input bit 62 against output bit 62: 600 of 600",
    ];
    assert_found_out(scheme, &expected);
}

#[test]
fn the_number_itself_and_its_bits_in_reverse_are_found_out() {
    let expected = ["neighbours differ in 1 bits", "the exclusive or of neighbours has 15 values"];
    assert_found_out(|number| number.reverse_bits() >> 1, &expected);
    assert_found_out(|number| number, &expected);
    assert_found_out(|number| number, &["rank correlation of outputs with inputs: 1.000"]);
}

#[test]
fn numbers_of_64_bits_are_found_out() {
    assert_found_out(|number| !number, &["18446744073709551615 is no number of 63 bits"]);
}
