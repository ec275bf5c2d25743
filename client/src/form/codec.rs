//! A form with everything that it is made of, ready to be applied.

use super::day::DIGITS;
use super::{Day, FleetId, FormError, FormNeed, IdForm, PrefixedForm, Snowflakes, UuidVersion};
use crate::layout::Layout;

/// What a form may be made of besides the ID.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormContext<'a> {
    /// The tag that the ID is of; none for a snowflake.
    pub tag: Option<&'a str>,
    /// The layout of snowflakes.
    pub layout: Option<Layout>,
    /// This installation's fleet ID.
    pub fleet: Option<FleetId>,
    /// The time now, in milliseconds since 1970, by which a day is chosen.
    pub unix_ms: u64,
    /// The keys of public IDs.
    #[cfg(feature = "public")]
    pub keys: Option<&'a super::public::KeyRing>,
}

/// A form that can be applied to IDs. Make one with [`IdForm::codec`].
#[derive(Debug, Clone)]
pub struct FormCodec(Codec);

#[derive(Debug, Clone)]
enum Codec {
    Text(PrefixedForm),
    Dated(Day),
    Uuid(UuidVersion, Snowflakes),
    ObjectId(Snowflakes),
    #[cfg(feature = "uuid5")]
    Uuid5(super::uuid5::TagHash),
    #[cfg(feature = "public")]
    Public {
        prefix: String,
        ids: super::public::PublicIds,
    },
}

impl IdForm {
    /// Brings together what the form is made of.
    ///
    /// # Errors
    /// [`FormError::Needs`] if something of it is missing in `context`.
    pub fn codec(&self, context: &FormContext<'_>) -> Result<FormCodec, FormError> {
        let codec = match self {
            Self::Text(form) => Codec::Text(form.clone()),
            Self::Dated(zone) => {
                need(context.tag, "dated", FormNeed::Tag)?;
                Codec::Dated(Day::at(context.unix_ms, *zone))
            }
            Self::Uuid(version) => Codec::Uuid(*version, snowflakes(version.name(), context)?),
            Self::ObjectId => Codec::ObjectId(snowflakes("objectid", context)?),
            Self::Uuid5 => uuid5(context)?,
            Self::Public { prefix } => public(prefix, context)?,
        };
        Ok(FormCodec(codec))
    }
}

#[cfg(feature = "uuid5")]
fn uuid5(context: &FormContext<'_>) -> Result<Codec, FormError> {
    let tag = need(context.tag, "uuid5", FormNeed::Tag)?;
    let fleet = need(context.fleet, "uuid5", FormNeed::Fleet)?;
    Ok(Codec::Uuid5(super::uuid5::TagHash::new(fleet, tag)))
}

#[cfg(not(feature = "uuid5"))]
fn uuid5(_: &FormContext<'_>) -> Result<Codec, FormError> {
    need(None, "uuid5", FormNeed::Feature("uuid5"))
}

#[cfg(feature = "public")]
fn public(prefix: &str, context: &FormContext<'_>) -> Result<Codec, FormError> {
    let keys = need(context.keys, "public", FormNeed::Keys)?;
    let ids = context.tag.map_or_else(|| keys.for_snowflakes(), |tag| keys.for_tag(tag));
    Ok(Codec::Public { prefix: prefix.to_owned(), ids })
}

#[cfg(not(feature = "public"))]
fn public(_: &str, _: &FormContext<'_>) -> Result<Codec, FormError> {
    need(None, "public", FormNeed::Feature("public"))
}

fn snowflakes(form: &'static str, context: &FormContext<'_>) -> Result<Snowflakes, FormError> {
    if context.tag.is_some() {
        return Err(FormError::Needs { form, need: FormNeed::Snowflake });
    }
    let layout = need(context.layout, form, FormNeed::Layout)?;
    Ok(Snowflakes::new(layout, need(context.fleet, form, FormNeed::Fleet)?))
}

fn need<T>(part: Option<T>, form: &'static str, need: FormNeed) -> Result<T, FormError> {
    part.ok_or(FormError::Needs { form, need })
}

impl FormCodec {
    /// The tag to ask for: `base`, or for a dated form the tag of its day.
    #[must_use]
    pub fn tag(&self, base: &str) -> String {
        match &self.0 {
            Codec::Dated(day) => day.tag(base),
            _ => base.to_owned(),
        }
    }

    /// The form of `id`.
    ///
    /// # Errors
    /// As [`FormCodec::encode_into`].
    pub fn encode(&self, id: u64) -> Result<String, FormError> {
        let mut text = String::new();
        self.encode_into(id, &mut text)?;
        Ok(text)
    }

    /// Appends the form of `id`.
    ///
    /// # Errors
    /// If the form has no room for the ID.
    pub fn encode_into(&self, id: u64, out: &mut String) -> Result<(), FormError> {
        match &self.0 {
            Codec::Text(form) => form.encode_into(id, out)?,
            Codec::Dated(day) => day.text_into(id, DIGITS, out),
            Codec::Uuid(version, snowflakes) => {
                let uuid = match version {
                    UuidVersion::V1 => snowflakes.uuid1(id),
                    UuidVersion::V7 => snowflakes.uuid7(id),
                    UuidVersion::V8 => snowflakes.uuid8(id),
                };
                uuid?.encode_into(out);
            }
            Codec::ObjectId(snowflakes) => snowflakes.object_id(id)?.encode_into(out),
            #[cfg(feature = "uuid5")]
            Codec::Uuid5(hash) => hash.uuid(id).encode_into(out),
            #[cfg(feature = "public")]
            Codec::Public { prefix, ids } => {
                out.push_str(prefix);
                ids.encode_into(id, out)?;
            }
        }
        Ok(())
    }

    /// Reads the form.
    ///
    /// # Errors
    /// What is wrong with the text, and where; [`FormError::OneWay`] for a hash.
    pub fn decode(&self, text: &str) -> Result<u64, FormError> {
        match &self.0 {
            Codec::Text(form) => form.decode(text),
            Codec::Dated(expected) => {
                let (day, id) = Day::parse(text, DIGITS)?;
                if day != *expected {
                    return Err(FormError::Day {
                        expected: expected.to_string(),
                        found: day.to_string(),
                    });
                }
                Ok(id)
            }
            Codec::Uuid(version, snowflakes) => {
                let uuid: super::Uuid = text.parse()?;
                uuid.fields(version.number())?;
                snowflakes.id_of(uuid)
            }
            Codec::ObjectId(snowflakes) => snowflakes.id_of_object_id(text.parse()?),
            #[cfg(feature = "uuid5")]
            Codec::Uuid5(_) => Err(FormError::OneWay),
            #[cfg(feature = "public")]
            Codec::Public { prefix, ids } => {
                let number = text.strip_prefix(prefix.as_str());
                let number =
                    number.ok_or_else(|| FormError::Prefix { expected: prefix.clone() })?;
                Ok(ids.decode(number)?)
            }
        }
    }
}
