//! From the text that a user passed to the ID.

use std::cell::RefCell;

use leaf_client::Layout;
use leaf_client::form::public::KeyRing;
use leaf_client::form::{FleetId, FormContext, FormError, FormReading, IdForm, recognise};

use crate::exit::Failure;
use crate::public::PublicByLeafd;

/// How texts are read.
#[derive(Clone, Copy)]
pub(super) struct ReadingRules<'a> {
    /// The one form that is accepted.
    pub(super) form: Option<&'a str>,
    /// The installation whose UUIDs are accepted.
    pub(super) fleet: Option<FleetId>,
    /// The keys of public IDs.
    pub(super) keys: Option<&'a KeyRing>,
    /// The tag that public IDs are of; none for snowflakes.
    pub(super) tag: Option<&'a str>,
    /// Reads public IDs if there are no keys.
    pub(super) leafd: Option<&'a RefCell<PublicByLeafd>>,
}

/// An ID, and in which form it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextReading {
    pub(super) reading: FormReading,
    /// The other forms that the text has, and its IDs in these.
    pub(super) others: Vec<(String, u64)>,
}

impl ReadingRules<'_> {
    /// Reads `text`.
    ///
    /// # Errors
    /// `Usage` quotes the text; leafd's refusal of a public ID.
    pub(super) fn read(&self, text: &str, layout: Layout) -> Result<TextReading, Failure> {
        if let (Some(leafd), Some(form)) = (self.leafd, self.form) {
            let id = leafd.borrow_mut().decode(text)?;
            let reading = FormReading { form: form.to_owned(), id, day: None, fleet: None };
            return Ok(TextReading { reading, others: Vec::new() });
        }
        if text.strip_prefix('-').is_some_and(is_number) {
            return Err(wrong_number(text, "it is negative"));
        }
        if is_number(text) && !text.starts_with('0') && text.parse::<i64>().is_err() {
            return Err(wrong_number(text, "it is too large"));
        }
        let all = self.all(text, layout).map_err(|error| (None, error));
        let read = match self.form {
            None => all,
            Some(form) => self.only(form, text, layout, all),
        };
        let mut readings = read.map_err(|(form, error)| wrong(text, form, &error))?.into_iter();
        let Some(reading) = readings.next() else {
            return Err(wrong(text, None, &FormError::Unrecognised));
        };
        Ok(TextReading { reading, others: readings.map(|other| (other.form, other.id)).collect() })
    }

    /// Every reading, the likeliest first.
    fn all(&self, text: &str, layout: Layout) -> Result<Vec<FormReading>, FormError> {
        let read = recognise(text, layout, self.fleet);
        let Some(public) = self.public(text) else { return read };
        let mut readings = read.unwrap_or_default();
        readings.push(public);
        Ok(readings)
    }

    /// The reading as a public ID. A public ID has a check symbol, but does not say of which tag it is.
    fn public(&self, text: &str) -> Option<FormReading> {
        let prefix = text.rsplit_once('_').map_or("", |(prefix, _)| prefix);
        let name = if prefix.is_empty() { "public".to_owned() } else { format!("{prefix}_public") };
        let context = FormContext { tag: self.tag, keys: self.keys, ..FormContext::default() };
        let codec = name.parse::<IdForm>().and_then(|form| form.codec(&context)).ok()?;
        let id = codec.decode(text).ok()?;
        Some(FormReading { form: name, id, day: None, fleet: None })
    }

    /// The reading in one form.
    fn only<'a>(
        &self,
        form: &'a str,
        text: &str,
        layout: Layout,
        all: Result<Vec<FormReading>, (Option<&'a str>, FormError)>,
    ) -> Result<Vec<FormReading>, (Option<&'a str>, FormError)> {
        // A day is read whatever the zone.
        let name = if form.starts_with("dated@") { "dated" } else { form };
        let mut readings = match all {
            Ok(readings) => readings,
            Err((_, error)) if name == "dated" => return Err((Some(form), error)),
            Err(_) => Vec::new(),
        };
        readings.retain(|reading| reading.form == name);
        if !readings.is_empty() {
            return Ok(readings);
        }
        if name == "dated" {
            return Err((Some(form), FormError::Date(text.to_owned())));
        }
        let context = FormContext {
            layout: Some(layout),
            // UUIDs of every installation have been read above.
            fleet: self.fleet.or_else(|| FleetId::new(0)),
            tag: if name == "uuid5" { Some("") } else { self.tag },
            unix_ms: 0,
            keys: self.keys,
        };
        let read = form.parse::<IdForm>().and_then(|form| form.codec(&context)?.decode(text));
        let id = read.map_err(|error| (Some(form), error))?;
        Ok(vec![FormReading { form: form.to_owned(), id, day: None, fleet: None }])
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn wrong_number(text: &str, why: &str) -> Failure {
    Failure::Usage(format!("{text:?} is not an ID: {why}; IDs are 0 to {}", i64::MAX))
}

fn wrong(text: &str, form: Option<&str>, error: &FormError) -> Failure {
    Failure::Usage(match form {
        Some(form) => format!("{text:?} is not an ID in the form {form}: {error}"),
        None if *error == FormError::Unrecognised => {
            format!("{text:?} is not an ID: {error}; --as public reads one by leafd's keys")
        }
        None => format!("{text:?} is not an ID: {error}"),
    })
}
