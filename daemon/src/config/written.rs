//! The configuration as the operator wrote it: a tree in which every key and every value knows its
//! place, so that a mistake can name it. It knows no key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a key or a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In the file; both count from 1, the column in characters.
    Line { line: usize, column: usize },
    /// In this environment variable.
    Variable(String),
}

/// A value and its place.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) value: WrittenValue,
    pub(super) place: Place,
}

/// A key of a table, and its value.
#[derive(Clone)]
pub(super) struct WrittenKey {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) value: Written,
}

#[derive(Clone)]
pub(super) enum WrittenValue {
    Text(String),
    /// The number, unless it is too large, and its digits.
    Integer(Option<i64>, String),
    Float(String),
    Boolean(bool),
    Date(String),
    List(Vec<Written>),
    Table(Vec<WrittenKey>),
    /// The text of a variable, which means what its key wants: a number, a list, or a text.
    Raw(String),
}

impl WrittenValue {
    /// Whether both mean the same, wherever they were written.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other))
            | (Self::Float(one), Self::Float(other))
            | (Self::Date(one), Self::Date(other))
            | (Self::Raw(one), Self::Raw(other)) => one == other,
            (Self::Integer(Some(one), _), Self::Integer(Some(other), _)) => one == other,
            (Self::Boolean(one), Self::Boolean(other)) => one == other,
            (Self::List(one), Self::List(other)) => {
                let pairs = || one.iter().zip(other);
                one.len() == other.len()
                    && pairs().all(|(one, other)| one.value.is_same(&other.value))
            }
            (Self::Table(one), Self::Table(other)) => {
                let has = |key: &WrittenKey| {
                    let same = |known: &&WrittenKey| known.name == key.name;
                    let theirs = other.iter().find(same);
                    theirs.is_some_and(|theirs| theirs.value.value.is_same(&key.value.value))
                };
                one.len() == other.len() && one.iter().all(has)
            }
            _ => false,
        }
    }
}

impl Written {
    /// The keys of a table; none if it is something else.
    pub(super) fn keys(&self) -> &[WrittenKey] {
        match &self.value {
            WrittenValue::Table(keys) => keys,
            _ => &[],
        }
    }

    /// The value of a key of a table.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.keys().iter().find(|key| key.name == name).map(|key| &key.value)
    }

    /// Sets `section.key`. Does nothing if the section is something else than a table.
    pub(super) fn set(&mut self, section: &str, key: WrittenKey) {
        let WrittenValue::Table(sections) = &mut self.value else { return };
        let place = key.place.clone();
        match sections.iter_mut().find(|known| known.name == section) {
            Some(WrittenKey { value: Self { value: WrittenValue::Table(keys), .. }, .. }) => {
                keys.retain(|known| known.name != key.name);
                keys.push(key);
            }
            Some(_) => {}
            None => sections.push(WrittenKey {
                name: section.to_owned(),
                place: place.clone(),
                value: Self { value: WrittenValue::Table(vec![key]), place },
            }),
        }
    }

    /// A table without keys.
    pub(super) const fn empty() -> Self {
        let place = Place::Line { line: 1, column: 1 };
        Self { value: WrittenValue::Table(Vec::new()), place }
    }
}

/// Line and column of offsets in a text.
pub(super) struct Positions<'a> {
    text: &'a str,
    /// The offset at which each line begins.
    lines: Vec<usize>,
}

impl<'a> Positions<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, lines: std::iter::once(0).chain(breaks).collect() }
    }

    pub(super) fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        Place::Line { line, column: before.chars().count() + 1 }
    }
}

/// The tree of a parsed table.
pub(super) fn tree(table: Spanned<DeTable<'_>>, positions: &Positions<'_>) -> Written {
    let place = positions.place(table.span().start);
    Written { value: WrittenValue::Table(keys(table.into_inner(), positions)), place }
}

/// A list as it is written in a variable; `None` if it is anything else.
pub(super) fn list_of(text: &str, place: &Place) -> Option<Written> {
    let value = DeValue::parse(text.trim()).ok()?.into_inner();
    let mut list = value.is_array().then(|| value_of(value, &Positions::of("")))?;
    put(&mut list, place);
    Some(Written { value: list, place: place.clone() })
}

/// Gives all parts of `value` one place.
fn put(value: &mut WrittenValue, place: &Place) {
    match value {
        WrittenValue::List(items) => items.iter_mut().for_each(|item| {
            item.place = place.clone();
            put(&mut item.value, place);
        }),
        WrittenValue::Table(keys) => keys.iter_mut().for_each(|key| {
            key.place = place.clone();
            key.value.place = place.clone();
            put(&mut key.value.value, place);
        }),
        _ => {}
    }
}

fn keys(table: DeTable<'_>, positions: &Positions<'_>) -> Vec<WrittenKey> {
    let key = |(name, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let place = positions.place(name.span().start);
        let name: std::borrow::Cow<'_, str> = name.into_inner();
        WrittenKey { name: name.into_owned(), place, value: written(value, positions) }
    };
    table.into_iter().map(key).collect()
}

fn written(value: Spanned<DeValue<'_>>, positions: &Positions<'_>) -> Written {
    let place = positions.place(value.span().start);
    Written { value: value_of(value.into_inner(), positions), place }
}

fn value_of(value: DeValue<'_>, positions: &Positions<'_>) -> WrittenValue {
    match value {
        DeValue::String(text) => WrittenValue::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
            WrittenValue::Integer(value, number.to_string())
        }
        DeValue::Float(number) => WrittenValue::Float(number.as_str().to_owned()),
        DeValue::Boolean(truth) => WrittenValue::Boolean(truth),
        DeValue::Datetime(date) => WrittenValue::Date(date.to_string()),
        DeValue::Array(items) => {
            WrittenValue::List(items.into_iter().map(|item| written(item, positions)).collect())
        }
        DeValue::Table(table) => WrittenValue::Table(keys(table, positions)),
    }
}
