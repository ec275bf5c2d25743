//! Finds out which form a text has. Different forms have different lengths and alphabets, but not always:
//! 11 decimal digits are a number of base 62 too. So there may be several readings, and the likeliest
//! is first.

use super::snowflakes::{fleet_of, loose_object_id};
use super::{Day, FleetId, FormError, IdForm, ObjectId, PrefixedForm, Snowflakes, TextForm, Uuid};
use super::{UuidVersion, day::DIGITS};
use crate::layout::Layout;

/// One way to read a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormReading {
    /// The name of the form, such as `base62`; `dated` for a number of a day, whatever the zone.
    pub form: String,
    /// The ID.
    pub id: u64,
    /// The day that the ID is of, in a dated form.
    pub day: Option<Day>,
    /// The fleet ID that a UUID has.
    pub fleet: Option<FleetId>,
}

/// Reads `text` in every form that it may have, the likeliest first. UUIDs and ObjectIDs are read by
/// `layout`; without `fleet`, those of every installation are read.
///
/// # Errors
/// If the text has no form: what is wrong with it in the form that it resembles most.
pub fn recognise(
    text: &str,
    layout: Layout,
    fleet: Option<FleetId>,
) -> Result<Vec<FormReading>, FormError> {
    let mut readings = Vec::new();
    let mut nearest = None;
    let mut take = |likely: bool, reading: Result<FormReading, FormError>| match reading {
        Ok(reading) => readings.push(reading),
        Err(error) if likely => nearest = Some(error),
        Err(_) => {}
    };
    let (prefix, number) = match text.rsplit_once('_') {
        Some((prefix, number)) => (Some(prefix), number),
        None => (None, text),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = number.len() > 1 && number.starts_with('0');
    let padded = u8::try_from(number.len()).ok().and_then(TextForm::padded).filter(|_| is_padded);
    for (form, likely) in [
        (Some(TextForm::Decimal), digits && !is_padded),
        (padded, digits),
        (Some(TextForm::Base62), number.len() == 11),
        (Some(TextForm::Base36), number.len() == 13),
        (Some(TextForm::Crockford32), number.len() == 14),
    ] {
        let Some(form) = form else { continue };
        let form = prefix
            .map_or_else(|| Ok(PrefixedForm::bare(form)), |prefix| PrefixedForm::new(prefix, form));
        let reading = form.and_then(|form| {
            let id = form.decode(text)?;
            Ok(FormReading { form: form.to_string(), id, day: None, fleet: None })
        });
        take(likely, reading);
    }
    take(text.len() >= 15 && text.as_bytes().get(8) == Some(&b'-'), dated(text));
    take(text.len() == 36, uuid(text, layout, fleet));
    take(text.len() == 24, object_id(text, layout, fleet));
    if readings.is_empty() {
        return Err(nearest.unwrap_or(FormError::Unrecognised));
    }
    Ok(readings)
}

fn dated(text: &str) -> Result<FormReading, FormError> {
    let (day, id) = Day::parse(text, DIGITS)?;
    Ok(FormReading { form: "dated".to_owned(), id, day: Some(day), fleet: None })
}

fn uuid(text: &str, layout: Layout, fleet: Option<FleetId>) -> Result<FormReading, FormError> {
    let uuid: Uuid = text.parse()?;
    let found = fleet_of(uuid)?;
    let version = match uuid.version() {
        1 => UuidVersion::V1,
        8 => UuidVersion::V8,
        _ => UuidVersion::V7,
    };
    let id = Snowflakes::new(layout, fleet.unwrap_or(found)).id_of(uuid)?;
    let form = IdForm::Uuid(version).to_string();
    Ok(FormReading { form, id, day: None, fleet: Some(found) })
}

fn object_id(text: &str, layout: Layout, fleet: Option<FleetId>) -> Result<FormReading, FormError> {
    let object_id: ObjectId = text.parse()?;
    let id = match fleet {
        Some(fleet) => Snowflakes::new(layout, fleet).id_of_object_id(object_id)?,
        None => loose_object_id(layout, object_id)?,
    };
    Ok(FormReading { form: IdForm::ObjectId.to_string(), id, day: None, fleet: None })
}
