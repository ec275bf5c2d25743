//! The form of the IDs that leafctl is about to get. It is settled before leafctl asks for IDs, so that no
//! ID is issued that cannot be printed.

use std::time::{SystemTime, UNIX_EPOCH};

use leaf_client::Layout;
use leaf_client::blocking::Client;
use leaf_client::form::{FleetId, FormCodec, FormContext, FormError, FormNeed, IdForm};
use leafd::cli::form::FormArgs;
use leafd::cli::leafctl::DaemonArgs;

use crate::decode::parse;
use crate::exit::Failure;
use crate::keys::keys;
use crate::output::IdText;
use crate::public::PublicByLeafd;

/// The tag to ask for, which a dated form changes, and the form; none for plain numbers.
///
/// # Errors
/// `Usage` if IDs of a tag cannot have this form.
pub(crate) fn of_tag(
    args: &FormArgs,
    tag: &str,
    daemon: &DaemonArgs,
) -> Result<(String, Option<IdText>), Failure> {
    if let Some(public) = by_leafd(args, Some(tag), daemon)? {
        return Ok((tag.to_owned(), Some(public)));
    }
    let (tag, codec) = own_of_tag(args, tag)?;
    Ok((tag, codec.map(IdText::Codec)))
}

/// Public IDs by leafd's keys, if leafctl has no keys of its own.
fn by_leafd(
    args: &FormArgs,
    tag: Option<&str>,
    daemon: &DaemonArgs,
) -> Result<Option<IdText>, Failure> {
    let Some(form) = args.form.as_ref().filter(|_| args.keys.is_none()) else { return Ok(None) };
    let Some(mut public) = PublicByLeafd::of(form, tag, daemon)? else { return Ok(None) };
    public.check()?;
    Ok(Some(IdText::ByLeafd(Box::new(public))))
}

fn own_of_tag(args: &FormArgs, tag: &str) -> Result<(String, Option<FormCodec>), Failure> {
    let codec = codec(args, Some(tag), None)?;
    let asked = codec.as_ref().map_or_else(|| tag.to_owned(), |codec| codec.tag(tag));
    Ok((asked, codec))
}

/// The form of snowflake IDs; none for plain numbers. Asks for leafd's layout if that is part of it.
///
/// # Errors
/// `Usage` if snowflake IDs cannot have this form, and those of `client`.
pub(crate) fn of_snowflakes(
    args: &FormArgs,
    daemon: &DaemonArgs,
    client: &mut Client,
) -> Result<Option<IdText>, Failure> {
    if let Some(public) = by_leafd(args, None, daemon)? {
        return Ok(Some(public));
    }
    let layout = match args.form {
        Some(IdForm::Uuid(_) | IdForm::ObjectId) => {
            Some(parse(&client.status()?.snowflake.layout)?)
        }
        _ => None,
    };
    Ok(codec(args, None, layout)?.map(IdText::Codec))
}

fn codec(
    args: &FormArgs,
    tag: Option<&str>,
    layout: Option<Layout>,
) -> Result<Option<FormCodec>, Failure> {
    let Some(form) = args.form.as_ref().filter(|form| **form != IdForm::default()) else {
        return Ok(None);
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let keys = match form {
        IdForm::Public { .. } => keys(args.keys.as_deref())?,
        _ => None,
    };
    let keys = keys.as_ref();
    let codec = form.codec(&FormContext { tag, layout, fleet: args.fleet, unix_ms, keys });
    let codec = codec.and_then(|codec| {
        let probe = layout.and_then(|layout| layout.full_id(unix_ms)).unwrap_or_default();
        codec.encode(probe).map(|_| codec)
    });
    let refused = |error| Failure::Usage(format!("--as {form}: {}", with_remedy(&error)));
    codec.map(Some).map_err(refused)
}

fn with_remedy(error: &FormError) -> String {
    let FormError::Needs { need, .. } = error else { return error.to_string() };
    if *need == FormNeed::Keys {
        return format!(
            "{error}: pass it with --keys or LEAFD_PUBLIC_KEYS; public-ids.md says how to make one"
        );
    }
    let wants_fleet = *need == FormNeed::Fleet;
    let Some(fresh) = wants_fleet.then(|| FleetId::random().ok()).flatten() else {
        return error.to_string();
    };
    format!(
        "{error}: pass it with --fleet or LEAFD_FLEET; choose one for the whole installation, once, such \
         as {fresh}, which is new and random"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(form: &str, fleet: Option<&str>) -> FormArgs {
        let fleet = fleet.map(|fleet| fleet.parse().unwrap());
        FormArgs { form: Some(form.parse().unwrap()), fleet, keys: None }
    }

    #[test]
    fn a_dated_form_asks_for_the_tag_of_its_day() {
        let (tag, codec) = own_of_tag(&args("dated@UTC", None), "invoices").unwrap();
        let text = codec.unwrap().encode(17).unwrap();
        assert_eq!(tag, format!("invoices-{}", &text[..8]));
        assert_eq!(&text[8..], "-000017");
        let (tag, codec) = own_of_tag(&args("decimal", None), "invoices").unwrap();
        assert!(tag == "invoices" && codec.is_none());
    }

    #[test]
    fn a_form_that_ids_cannot_have_is_refused_before_any_is_issued() {
        let fleet = Some("4be1f0a37c");
        for (form, fleet, layout, said) in [
            ("uuid7", None, Layout::LEAF, "or LEAFD_FLEET; choose one"),
            ("dated@UTC", fleet, Layout::LEAF, "needs an ID of a tag"),
            ("ord_public", fleet, Layout::LEAF, "needs a file with keys: pass it with --keys"),
            ("uuid7", fleet, Layout::new(1, 0, 20, 30, 13).unwrap(), "no room"),
            ("uuid1", fleet, Layout::new(1, 0, 41, 4, 18).unwrap(), "too few steps"),
        ] {
            let failure = codec(&args(form, fleet), None, Some(layout)).unwrap_err();
            let text = failure.to_string();
            assert!(text.starts_with(&format!("--as {form}: ")) && text.contains(said), "{text}");
            assert_eq!(failure.code(), 64);
        }
    }
}
