//! Values that leafd cannot work with, as the checks list them: each with its key, its reason, and the
//! other keys on which it depends.

use std::fmt::Display;
use std::time::Duration;

use crate::duration::exact;

/// A value that leafd cannot work with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The key with its section.
    pub(crate) key: &'static str,
    /// The value, and what it should be.
    pub(crate) text: String,
    /// The element of the key's list, from 0 on.
    pub(super) item: Option<usize>,
    /// Keys without which there would be no problem: if one of them is wrong, nobody knows.
    pub(super) others: &'static [&'static str],
}

impl Problem {
    pub(crate) const fn new(key: &'static str, text: String) -> Self {
        Self { key, text, item: None, others: &[] }
    }

    /// The problem depends on these keys too.
    pub(crate) fn with(self, others: &'static [&'static str]) -> Self {
        Self { others, ..self }
    }

    /// The problem is in this element of a list.
    pub(crate) fn in_item(self, index: usize) -> Self {
        Self { item: Some(index), ..self }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

/// The problems found so far.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

/// A problem to which more can be said, or none.
pub(super) struct Added<'a>(Option<&'a mut Problem>);

impl Added<'_> {
    /// Adds why it is a problem, with its punctuation.
    pub(super) fn because(mut self, why: &str) -> Self {
        if let Some(problem) = &mut self.0 {
            problem.text.push_str(why);
        }
        self
    }

    /// As [`Problem::with`].
    pub(super) fn with(self, others: &'static [&'static str]) {
        if let Some(problem) = self.0 {
            problem.others = others;
        }
    }
}

impl Problems {
    pub(super) fn all(self) -> Vec<Problem> {
        self.0
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub(super) fn add(&mut self, key: &'static str, text: String) {
        self.0.push(Problem::new(key, text));
    }

    /// `value` has to be one of `least` to `most`.
    pub(super) fn range(
        &mut self,
        key: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Added<'_> {
        self.within(key, &value, &least, &most, |number| number.to_string())
    }

    /// As [`Self::range`].
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        value: Duration,
        least: Duration,
        most: Duration,
    ) -> Added<'_> {
        self.within(key, &value, &least, &most, |duration| exact(*duration))
    }

    fn within<T: PartialOrd>(
        &mut self,
        key: &'static str,
        value: &T,
        least: &T,
        most: &T,
        show: fn(&T) -> String,
    ) -> Added<'_> {
        if value >= least && value <= most {
            return Added(None);
        }
        let text = format!("{} is not between {} and {}", show(value), show(least), show(most));
        self.0.push(Problem::new(key, text));
        Added(self.0.last_mut())
    }
}
/// What the checks say of a configuration.
#[cfg(test)]
pub(super) fn of_toml(toml: &str) -> Vec<String> {
    let config: super::Config = toml::from_str(toml).unwrap();
    config.check().iter().map(Problem::to_string).collect()
}
