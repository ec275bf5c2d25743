//! The form in which a caller wants its IDs. It is settled before any ID is issued.

use hyper::StatusCode;
use leaf_client::Layout;
use leaf_client::form::public::KeyRing;
use leaf_client::form::{FleetId, FormCodec, FormContext, FormError, FormNeed, IdForm};

use super::problem::HttpProblem;

/// What the forms of snowflake IDs are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnowflakeForms {
    /// Whether snowflake IDs are turned on.
    pub(super) offered: bool,
    pub(super) layout: Layout,
    pub(super) fleet: Option<FleetId>,
}

impl SnowflakeForms {
    /// The form `name` of IDs of `tag`, or of snowflake IDs; none for plain numbers. Days are those of
    /// `unix_ms`, in ms since 1970. `keys` are leafd's, for public IDs.
    ///
    /// # Errors
    /// 400 when there is no such form, or the IDs cannot have it.
    pub(super) fn codec(
        self,
        name: Option<&str>,
        tag: Option<&str>,
        unix_ms: u64,
        keys: Option<&KeyRing>,
    ) -> Result<Option<FormCodec>, HttpProblem> {
        let Some(name) = name.filter(|name| *name != "decimal") else { return Ok(None) };
        let refused = |error: FormError| {
            let remedy = match &error {
                FormError::Needs { need: FormNeed::Fleet, .. } => {
                    "; the operator sets it with snowflake.fleet"
                }
                FormError::Needs { need: FormNeed::Keys, .. } => {
                    "; the operator sets it with public.key-file"
                }
                _ => "",
            };
            HttpProblem::new(StatusCode::BAD_REQUEST, format!("as {name:?}: {error}{remedy}"))
        };
        // A plus in a query is a space, and no name has one: `dated@+08:00`.
        let form: IdForm = name.replace(' ', "+").parse().map_err(refused)?;
        let Self { layout, fleet, .. } = self;
        let context = FormContext { tag, layout: Some(layout), fleet, unix_ms, keys };
        let codec = form.codec(&context).and_then(|codec| {
            let probe = if tag.is_none() { layout.full_id(unix_ms) } else { None };
            codec.encode(probe.unwrap_or_default()).map(|_| codec)
        });
        codec.map(Some).map_err(refused)
    }
}

/// The form of an ID that was issued.
///
/// # Errors
/// 500 when it has no room for the ID after all; the message has the ID, so it is not lost.
pub(super) fn encoded(codec: &FormCodec, id: u64) -> Result<String, HttpProblem> {
    codec.encode(id).map_err(|error| {
        let text = format!("the ID {id} was issued, but cannot have this form: {error}");
        HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}
