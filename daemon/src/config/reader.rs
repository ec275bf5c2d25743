//! Reads what was written into Rust types, with errors that keep their parts: which type was wanted,
//! which names are known, and where the value is. serde's own error types keep only a sentence.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::written::{Place, Written, WrittenValue, list_of};

/// Why a value does not fit, and where it was written, if it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) why: MisfitKind,
    pub(super) place: Option<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MisfitKind {
    /// The value is something else than this.
    NotA(String),
    /// There is no such key; these are known.
    UnknownKey(String, &'static [&'static str]),
    /// There is no such value; these are known.
    UnknownValue(&'static [&'static str]),
    /// The table lacks this key.
    Lacks(&'static str),
    /// Anything else, in a sentence.
    Other(String),
}

impl Misfit {
    const fn new(why: MisfitKind) -> Self {
        Self { why, place: None }
    }

    /// The innermost place counts.
    fn at(mut self, place: &Place) -> Self {
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.why)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self::new(MisfitKind::Other(text.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(MisfitKind::NotA(expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(MisfitKind::NotA(expected.to_string()))
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(MisfitKind::UnknownValue(known))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::new(MisfitKind::UnknownKey(name.to_owned(), known))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(MisfitKind::Lacks(name))
    }
}

/// A step from the whole configuration to one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    /// The index in a list, from 0 on.
    Item(usize),
}

/// Reads a configuration in which only one value is set: `value`, at the end of `path`. With an empty
/// path, that is the whole configuration.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) path: &'a [PathStep],
    pub(super) value: &'a Written,
}

impl<'a> Reader<'a> {
    const fn of(value: &'a Written) -> Self {
        Self { path: &[], value }
    }

    /// The text that stands for another type: in a variable, everything is a text.
    const fn raw(&self) -> Option<&'a str> {
        match (&self.value.value, self.path) {
            (WrittenValue::Raw(text), []) => Some(text.as_str()),
            _ => None,
        }
    }

    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.value.value {
            WrittenValue::Text(text) | WrittenValue::Raw(text) => visitor.visit_str(text),
            WrittenValue::Integer(Some(number), _) => visitor.visit_i64(*number),
            WrittenValue::Integer(None, digits) => {
                Err(Misfit::invalid_value(Unexpected::Other(digits), &visitor))
            }
            WrittenValue::Boolean(truth) => visitor.visit_bool(*truth),
            WrittenValue::List(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.iter().map(Reader::of)))
            }
            WrittenValue::Table(keys) => {
                let keys = keys.iter().map(|key| (key.name.as_str(), Reader::of(&key.value)));
                visitor.visit_map(MapDeserializer::new(keys))
            }
            WrittenValue::Float(text) | WrittenValue::Date(text) => {
                Err(Misfit::invalid_type(Unexpected::Other(text), &visitor))
            }
        }
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Some(text) = self.raw() else { return self.deserialize_any(visitor) };
        let read = match text.parse() {
            Ok(number) => visitor.visit_i64(number),
            Err(_) => Err(Misfit::invalid_type(Unexpected::Str(text), &visitor)),
        };
        read.map_err(|misfit| misfit.at(&self.value.place))
    }
}

impl<'de> IntoDeserializer<'de, Misfit> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let inside = |path| Reader { path, value: self.value };
        match self.path.split_first() {
            Some((PathStep::Key(key), path)) => {
                let only = std::iter::once((key.as_str(), inside(path)));
                visitor.visit_map(MapDeserializer::new(only))
            }
            Some((PathStep::Item(_), path)) => {
                visitor.visit_seq(SeqDeserializer::new(std::iter::once(inside(path))))
            }
            None => self.whole(visitor).map_err(|misfit| misfit.at(&self.value.place)),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.number(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.number(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.number(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Some(text) = self.raw() else { return self.deserialize_any(visitor) };
        let read = match text.parse() {
            Ok(truth) => visitor.visit_bool(truth),
            Err(_) => Err(Misfit::invalid_type(Unexpected::Str(text), &visitor)),
        };
        read.map_err(|misfit| misfit.at(&self.value.place))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Some(text) = self.raw() else { return self.deserialize_any(visitor) };
        let place = &self.value.place;
        match list_of(text, place) {
            Some(list) => Reader::of(&list).deserialize_any(visitor),
            None => Err(Misfit::invalid_type(Unexpected::Str(text), &visitor).at(place)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let read = match &self.value.value {
            WrittenValue::Text(text) | WrittenValue::Raw(text) => {
                visitor.visit_enum(text.as_str().into_deserializer())
            }
            _ => Err(Misfit::invalid_type(Unexpected::Other("a value"), &visitor)),
        };
        read.map_err(|misfit| misfit.at(&self.value.place))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct map struct identifier ignored_any
    }
}
