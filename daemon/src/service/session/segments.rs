//! Segment IDs: at once from memory, or later from the service.

use std::sync::Arc;

use leaf_client::wire::{Reply, Run, WireError};
use tokio::time::Instant;

use super::{Responder, Session};
use crate::ids::BizTag;
use crate::segment::request::SegmentOutcome;
use crate::segment::table::Asker;
use crate::segment::tag::Tag;
use crate::service::admission::Allowance;
use crate::service::answers::{bad_tag, ids};
use crate::tally::CallKind;

/// A tag that the caller may get IDs of.
pub(super) struct AllowedTag {
    pub(super) name: BizTag,
    /// None while memory has no tag of this name.
    tag: Option<Arc<Tag>>,
    allowance: Option<Allowance>,
}

impl Session {
    #[inline(always)]
    pub(super) fn segment(
        &mut self,
        name: &str,
        count: u32,
        timeout_ms: u32,
        now: Instant,
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        self.check_count(count)?;
        let is_last = matches!(&self.last_tag, Some(last) if last.name.as_str() == name);
        if !is_last && let Some(first) = self.take_of_other(name, count) {
            self.tally.segment(count);
            responder.reply(Reply::Ids { first: Run { first, count }, more: Vec::new() });
            return Ok(());
        }
        let allowed = match &self.last_tag {
            Some(last) if is_last => last,
            _ => &*self.last_tag.insert(self.find_tag(name)?),
        };
        let allowance = allowed.allowance.as_ref();
        let metered = self.visitor.is_metered(allowance);
        if metered
            && let Err(refused) = self.visitor.check_quota(&self.service, count, allowance, now)
        {
            self.note(&refused);
            return Err(refused);
        }
        let taken = allowed.tag.as_ref().and_then(|tag| self.service.segments.take(tag, count));
        let Some(first) = taken else {
            // Memory may evict a tag that the store does not know and later make a new one of the
            // same name, so the session must not keep this one.
            let (name, allowance) = (allowed.name.clone(), allowed.allowance.clone());
            self.last_tag = None;
            let deadline = self.deadline(now, timeout_ms);
            return self.segment_by_service(&name, allowance, count, (now, deadline), responder);
        };
        if metered {
            self.visitor.charge(&self.service, count, allowance, now);
        }
        self.tally.segment(count);
        responder.reply(Reply::Ids { first: Run { first, count }, more: Vec::new() });
        Ok(())
    }

    /// Requests IDs of a tag that has too few ready in memory.
    #[inline(never)]
    fn segment_by_service(
        &self,
        name: &BizTag,
        allowance: Option<Allowance>,
        count: u32,
        (now, deadline): (Instant, Instant),
        responder: &mut impl Responder,
    ) -> Result<(), WireError> {
        let allowance = allowance.as_ref();
        // Before the name gets an entry in memory, which a refused request must not cause.
        self.check_in_flight(responder)?;
        let asker = Asker(self.visitor.grant().account().number());
        let by = (asker, self.visitor.principal().actor());
        match self.service.segments.request(name, by, count, deadline) {
            SegmentOutcome::Now(runs) => {
                self.visitor.charge(&self.service, count, allowance, now);
                self.service.counts.requests.waited(CallKind::Segment, runs.total());
                responder.reply(ids(runs));
            }
            SegmentOutcome::Refused(refused) => return Err(refused),
            SegmentOutcome::Later(waiting) => {
                let reserved = self.visitor.reserve(&self.service, count, allowance);
                let outcome = waiting.outcome();
                let reply = self.keep_waiting(CallKind::Segment, now, reserved, outcome);
                responder.reply_later(reply);
            }
        }
        Ok(())
    }

    /// The tag of this name, if the caller may get IDs of it.
    fn find_tag(&self, name: &str) -> Result<AllowedTag, WireError> {
        if let Err(refused) = self.visitor.grant().tag(name) {
            // A malformed name is refused as malformed first: the refusal below would quote it.
            BizTag::new(name).map_err(bad_tag)?;
            self.note(&refused);
            return Err(refused);
        }
        let tag = self.service.segments.find(name);
        let checked = match &tag {
            Some(tag) => tag.name().clone(),
            None => BizTag::new(name).map_err(bad_tag)?,
        };
        let allowance = self.visitor.allowance(&self.service, name);
        Ok(AllowedTag { name: checked, tag, allowance })
    }
}
