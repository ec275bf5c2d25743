//! A row of Leaf's table as a database returns it.

use super::StoreError;

/// A row of `leaf_alloc`. Databases return its values as text, because a column may have any type. A
/// value that is not a number fails only where the number is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `biz_tag`.
    pub tag: String,
    /// `max_id`: the start of the next lease.
    pub max_id: Number,
    /// `step`.
    pub step: Number,
    /// `description`.
    pub description: String,
}

/// A value of a row that should be a whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(Option<String>);

impl Number {
    /// The value as the database prints it; `None` is NULL.
    pub(crate) const fn new(text: Option<String>) -> Self {
        Self(text)
    }

    /// The number, if it is one.
    #[must_use]
    pub fn get(&self) -> Option<i64> {
        self.0.as_deref()?.parse().ok()
    }

    /// The number for display and comparisons: 0 if it is negative or not a number.
    pub(crate) fn natural(&self) -> u64 {
        self.get().and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    /// The number, or an error that names the column and the value.
    pub(super) fn required(&self, column: &str) -> Result<i64, StoreError> {
        self.get().ok_or_else(|| {
            let text = self.text();
            StoreError::BadRow(format!("{column} is {text}, not a whole number below 2^63"))
        })
    }

    /// The value as the row has it.
    pub(super) fn text(&self) -> &str {
        self.0.as_deref().unwrap_or("NULL")
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self(Some(number.to_string()))
    }
}
