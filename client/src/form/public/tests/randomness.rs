//! Whether a permutation of 63-bit numbers hides that numbers are consecutive.
//!
//! Every check compares a count or a rank correlation with what random numbers give, and allows five
//! standard deviations. To pass is no proof of security: good mixers that anybody can undo pass as well. To
//! fail is proof of the opposite.

use std::collections::HashSet;

const BITS: u32 = 63;

/// Consecutive numbers in a run.
const NUMBERS: u64 = 20_000;

/// Samples for each flipped input bit.
const FLIPS: u64 = 600;

/// By how many standard deviations a figure may be off. Of the 8,400 figures, random ones all stay within it
/// in 199 of 200 cases; keys are fixed, so it is one case.
const TOLERANCE: f64 = 5.0;

/// What gives the numbers from `first` on away: nothing, if they look random.
pub(super) fn faults(first: u64, permute: impl Fn(u64) -> u64) -> Vec<String> {
    let outputs: Vec<u64> = (first..first + NUMBERS).map(&permute).collect();
    let mut faults = Vec::new();
    if let Some(large) = outputs.iter().find(|output| **output >> BITS != 0) {
        faults.push(format!("{large} is no number of {BITS} bits"));
    }
    faults.extend(neighbours_that_differ_in_few_or_many_bits(&outputs));
    faults.extend(unbalanced_bits("output bit", &outputs));
    let changes: Vec<u64> = outputs.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    faults.extend(unbalanced_bits("change of output bit", &changes));
    faults.extend(repeated_steps(&outputs));
    faults.extend(traces_of_order(&outputs));
    faults.extend(input_bits_that_show(first, permute));
    faults
}

/// The fault, if `ones` of `trials` fair coins are implausible.
fn unfair(what: &str, ones: u64, trials: u64) -> Option<String> {
    let (ones, trials) = (ones as f64, trials as f64);
    let deviation = (ones - trials / 2.0) / (trials.sqrt() / 2.0);
    (deviation.abs() > TOLERANCE).then(|| {
        format!("{what}: {ones} of {trials}, {deviation:.1} standard deviations from half")
    })
}

fn neighbours_that_differ_in_few_or_many_bits(outputs: &[u64]) -> Vec<String> {
    let flips = || outputs.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones());
    // Random neighbours are outside in one of 10^10 cases.
    let outlier = flips().find(|flips| !(8..=55).contains(flips));
    let outlier = outlier.map(|flips| format!("neighbours differ in {flips} bits"));
    let total = flips().map(u64::from).sum();
    let trials = (NUMBERS - 1) * u64::from(BITS);
    outlier.into_iter().chain(unfair("bits in which neighbours differ", total, trials)).collect()
}

fn unbalanced_bits(what: &str, numbers: &[u64]) -> Vec<String> {
    let ones = |bit| numbers.iter().filter(|number| *number >> bit & 1 == 1).count() as u64;
    (0..BITS)
        .filter_map(|bit| unfair(&format!("{what} {bit}"), ones(bit), numbers.len() as u64))
        .collect()
}

/// Neither differences nor exclusive ors repeat: of random numbers, in one of 10^10 cases.
fn repeated_steps(outputs: &[u64]) -> Vec<String> {
    let subtracted = |pair: &[u64]| pair[1].wrapping_sub(pair[0]) & (u64::MAX >> 1);
    let steps: [(_, HashSet<u64>); 2] = [
        ("difference", outputs.windows(2).map(subtracted).collect()),
        ("exclusive or", outputs.windows(2).map(|pair| pair[0] ^ pair[1]).collect()),
    ];
    let repeated = steps.into_iter().filter(|(_, distinct)| distinct.len() + 1 < outputs.len());
    repeated
        .map(|(name, distinct)| format!("the {name} of neighbours has {} values", distinct.len()))
        .collect()
}

/// Spearman's rank correlation, with the inputs and between neighbours.
fn traces_of_order(outputs: &[u64]) -> Vec<String> {
    let mut by_size: Vec<usize> = (0..outputs.len()).collect();
    by_size.sort_by_key(|i| outputs[*i]);
    let mut ranks = vec![0.0; outputs.len()];
    for (rank, i) in by_size.into_iter().enumerate() {
        ranks[i] = rank as f64;
    }
    let inputs: Vec<f64> = (0..outputs.len()).map(|i| i as f64).collect();
    let last = ranks.len() - 1;
    [
        correlated("outputs with inputs", &inputs, &ranks),
        correlated("outputs with the next ones", &ranks[..last], &ranks[1..]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The fault, if the correlation of the two is no accident.
fn correlated(what: &str, left: &[f64], right: &[f64]) -> Option<String> {
    let count = left.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (left_mean, right_mean) = (mean(left), mean(right));
    let (mut covariance, mut left_variance, mut right_variance) = (0.0, 0.0, 0.0);
    for (l, r) in left.iter().zip(right) {
        covariance += (l - left_mean) * (r - right_mean);
        left_variance += (l - left_mean).powi(2);
        right_variance += (r - right_mean).powi(2);
    }
    let correlation = covariance / (left_variance * right_variance).sqrt();
    (correlation.abs() > TOLERANCE / count.sqrt())
        .then(|| format!("rank correlation of {what}: {correlation:.3}"))
}

/// The strict avalanche criterion: each input bit flips each output bit half the time.
fn input_bits_that_show(first: u64, permute: impl Fn(u64) -> u64) -> Vec<String> {
    let number = |i: u64| (first + i).wrapping_mul(97) >> 1;
    let before: Vec<u64> = (0..FLIPS).map(|i| permute(number(i))).collect();
    let changes = |bit: u32| -> Vec<u64> {
        (0..).zip(&before).map(|(i, before)| before ^ permute(number(i) ^ 1 << bit)).collect()
    };
    (0..BITS)
        .flat_map(|bit| {
            unbalanced_bits(&format!("input bit {bit} against output bit"), &changes(bit))
        })
        .collect()
}
