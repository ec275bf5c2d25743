//! How long storms last. Tests that repeat something at random have a short form for every run, and
//! a long one for `tests/run --long`.

/// Set to anything but nothing, it chooses the long form of every storm.
const VARIABLE: &str = "LEAF_TESTS_LONG";

/// The short form, unless the long ones are wanted.
#[must_use]
pub fn short_or_long<T>(short: T, long: T) -> T {
    let is_long = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    if is_long { long } else { short }
}
