//! Public IDs, which memory makes and reads at once.

use leaf_client::wire::{Call, WireError};
use tokio::time::Instant;

use super::{Responder, Session};
use crate::service::public::PublicCall;
use crate::tally::CallKind;

/// What each costs its user besides the bytes of the answer, in bytes of answers: it takes as long as two
/// requests for IDs.
const PUBLIC_ID_COST: usize = 128;

impl Session {
    #[cold]
    pub(super) fn public(
        &mut self,
        call: &Call<'_>,
        now: Instant,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        let Some((tag, wanted)) = PublicCall::of(call) else { return Ok(()) };
        wanted.check(tag)?;
        let grant = self.visitor.grant();
        let allowed = match wanted {
            PublicCall::Encode(_) => grant.encode_public(tag),
            PublicCall::Decode(_) => grant.decode_public(tag),
        };
        allowed.inspect_err(|refused| {
            self.note(refused);
            self.visitor.audit_refusal(&self.service, call, refused);
        })?;
        // A caller that encodes at will finds small numbers by trying, so its quota of IDs limits it.
        let count = u32::try_from(wanted.count()).unwrap_or(u32::MAX);
        let encodes = matches!(wanted, PublicCall::Encode(_));
        // Snowflake IDs have no tag, and so no tag's quota.
        let of_tag = (encodes && !tag.is_empty()).then_some(tag);
        let allowance = of_tag.and_then(|tag| self.visitor.allowance(&self.service, tag));
        let allowance = allowance.as_ref();
        let metered = encodes && self.visitor.is_metered(allowance);
        if metered {
            let quota = self.visitor.check_quota(&self.service, count, allowance, now);
            quota.inspect_err(|refused| self.note(refused))?;
        }
        self.user().share.spend(wanted.count() * PUBLIC_ID_COST);
        let reply = wanted.answer(tag, self.visitor.policy().public_keys.as_ref())?;
        if metered {
            self.visitor.charge(&self.service, count, allowance, now);
        }
        self.service.counts.requests.answered(CallKind::of(call));
        responder.reply(reply);
        Ok(())
    }
}
