//! What can be wrong with a form, or with a text that should be one.

use crate::layout::LayoutError;

/// What a form is made of besides the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormNeed {
    /// An ID of a tag: snowflakes have none.
    #[error("an ID of a tag, and a snowflake has none: use uuid7 for a UUID")]
    Tag,
    /// A snowflake.
    #[error(
        "a snowflake: IDs of a tag are unique only within the tag; for a UUID of one there is uuid5"
    )]
    Snowflake,
    /// The layout of snowflake IDs.
    #[error("the layout of snowflake IDs")]
    Layout,
    /// The installation's fleet ID.
    #[error("the installation's fleet ID")]
    Fleet,
    /// The keys of public IDs.
    #[error("a file with keys")]
    Keys,
    /// A feature of the crate.
    #[error("the feature {0} of leaf-client")]
    Feature(&'static str),
}

/// Why an ID has no such form, or a text is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The number is no ID of leafd.
    #[error("{0} is above 2^63 - 1, so it is no ID of leafd")]
    TooLarge(u64),
    /// The text is too short or too long.
    #[error("{got} characters instead of {expected}")]
    Length {
        /// How many characters the form has.
        expected: usize,
        /// How many the text has.
        got: usize,
    },
    /// The text has too few digits.
    #[error("{got} digits instead of at least {least}")]
    Short {
        /// How many digits the form has at least.
        least: usize,
        /// How many the text has.
        got: usize,
    },
    /// A character that cannot stand there.
    #[error("character {at} is {found:?}: {hint}")]
    Character {
        /// Its place, the first character being 1.
        at: usize,
        /// The character.
        found: char,
        /// What can stand there.
        hint: &'static str,
    },
    /// The check symbol belongs to another number: something was mistyped.
    #[error(
        "the check symbol is {found:?}, but {expected:?} belongs to this number: something is mistyped"
    )]
    Check {
        /// The symbol that belongs to the number.
        expected: char,
        /// The symbol of the text.
        found: char,
    },
    /// The text stands for a number above 2^63 - 1.
    #[error("the number is above 2^63 - 1, so it is no ID of leafd")]
    Range,
    /// The prefix is missing, or another one.
    #[error("the prefix is not {expected:?}")]
    Prefix {
        /// The prefix, with its underscore.
        expected: String,
    },
    /// The prefix cannot be one.
    #[error(
        "prefix {0:?}: a prefix is 1 to 63 lowercase letters and underscores, and begins and ends \
         with a letter"
    )]
    BadPrefix(String),
    /// A UUID or ObjectID that leafd did not make in this installation.
    #[error("it has the fleet ID {found}, and this is {expected}: another installation made it")]
    Fleet {
        /// This installation's fleet ID.
        expected: String,
        /// The one in the text.
        found: String,
    },
    /// An ObjectID has only a part of the fleet ID.
    #[error("it has another fleet ID than {expected}: another installation made it")]
    PartOfFleet {
        /// This installation's fleet ID.
        expected: String,
    },
    /// The text is no fleet ID.
    #[error("fleet ID {0:?}: a fleet ID is 10 lowercase hexadecimal digits, such as 4be1f0a37c")]
    BadFleet(String),
    /// No snowflake of this layout becomes this UUID or ObjectID.
    #[error("no snowflake ID of this layout becomes it: {0}")]
    Foreign(&'static str),
    /// The UUID has another version.
    #[error("it is a UUID of version {found}, not {expected}")]
    Version {
        /// The version that was expected.
        expected: u8,
        /// The version of the text.
        found: u8,
    },
    /// The layout has too many bits for the form, or times that it cannot hold.
    #[error("this form has no room for the layout: {0}")]
    NoRoom(&'static str),
    /// The ID does not belong to the layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A form that cannot be turned back.
    #[error("a UUID of version 5 is a hash: nothing can turn it back into an ID")]
    OneWay,
    /// The text is no public ID, or the ID has none.
    #[cfg(feature = "public")]
    #[error(transparent)]
    Public(#[from] super::public::PublicIdError),
    /// Something that the form is made of is missing.
    #[error("the form {form} needs {need}")]
    Needs {
        /// The form.
        form: &'static str,
        /// What is missing.
        need: FormNeed,
    },
    /// There is no form of this name.
    #[error(
        "there is no form {0:?}; there are decimal, base62, base36, crockford32, padded[N], each \
         with an optional prefix as in ord_base62, dated@ZONE as in dated@UTC or dated@+08:00, uuid7, \
         uuid8, uuid1, uuid5, objectid, and public with an optional prefix"
    )]
    UnknownForm(String),
    /// The text has none of the forms.
    #[error(
        "it has no form that leafd knows: decimal, base62 (11 characters), base36 (13), crockford32 \
         (14), padded with zeros, with a prefix in front, dated, a UUID of version 1, 7 or 8, or an \
         ObjectID; public IDs are read by their keys alone"
    )]
    Unrecognised,
    /// A padded number has between 1 and 19 digits.
    #[error("{0:?}: a number can be padded to 1 to 19 digits, as in padded12")]
    Padding(String),
    /// The time zone cannot be one.
    #[error("time zone {0:?}: write UTC, or hours and minutes from it, such as +08:00 or -03:30")]
    Zone(String),
    /// The text is of another day.
    #[error("it is of the day {found}, not {expected}")]
    Day {
        /// The day that was expected.
        expected: String,
        /// The day of the text.
        found: String,
    },
    /// The calendar has no such date.
    #[error("{0:?} is no date: write YYYYMMDD, from 19700101 to 99991231")]
    Date(String),
}
