//! Writes to the audit what callers change, and try to change, by administrative calls.

use leaf_client::wire::{Call, ErrorCode, Reply, TagStatus, WireError, WorkerState, WorkerStatus};

use crate::actor::{Actor, AuditEntry, AuditOutcome};

/// An administrative call as the audit names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuditedCall {
    action: &'static str,
    tag: Option<String>,
    worker: Option<u64>,
    /// What the caller asks for.
    asked: Option<String>,
    /// Whether it changes something if it is not refused.
    is_change: bool,
}

/// A change that waits for its turn, or runs. Dropping it while it runs writes that its outcome is
/// unknown: the caller has left, and the store may have done it.
#[derive(Debug)]
pub(super) struct AuditTrail {
    actor: Actor,
    call: AuditedCall,
    /// How it was before.
    old: Option<String>,
    is_running: bool,
}

impl AuditedCall {
    /// `None` for calls that are nobody's business: every status asks for the tags in use.
    pub(super) fn of(call: &Call<'_>) -> Option<Self> {
        let of_tag = |action, tag: &str, asked, is_change| {
            Some(Self { action, tag: Some(tag.to_owned()), worker: None, asked, is_change })
        };
        let list =
            |action| Some(Self { action, tag: None, worker: None, asked: None, is_change: false });
        match *call {
            Call::TagCreate { tag, step, first, .. } => {
                let step = if step == 0 { "default".to_owned() } else { step.to_string() };
                of_tag("tag-create", tag, Some(format!("step {step}, first {first}")), true)
            }
            Call::TagSetStep { tag, step } => {
                of_tag("tag-set-step", tag, Some(format!("step {step}")), true)
            }
            Call::TagDelete { tag } => of_tag("tag-delete", tag, None, true),
            Call::WorkerRelease { worker, owner } => Some(Self {
                action: "worker-release",
                tag: None,
                worker: Some(worker),
                asked: Some(format!("free, if {owner} has it")),
                is_change: true,
            }),
            Call::PoolRelease { pool, worker, owner } => Some(Self {
                action: "pool-release",
                tag: None,
                worker: Some(worker),
                asked: Some(format!("free in {pool}, if {owner} has it")),
                is_change: true,
            }),
            Call::PoolList { .. } => list("pool-list"),
            Call::TagShow { tag } => of_tag("tag-show", tag, None, false),
            Call::TagList { .. } => list("tag-list"),
            Call::TagForecasts { tag: "", .. } => list("tag-forecasts"),
            Call::TagForecasts { tag, .. } => of_tag("tag-forecasts", tag, None, false),
            Call::WorkerList { .. } => list("worker-list"),
            Call::PublicDecode { tag, .. } => of_tag("public-decode", tag, None, false),
            _ => None,
        }
    }

    /// Writes that the call was refused, of which the audit left out `untold` like it.
    pub(super) fn refused(&self, actor: &Actor, refused: &WireError, untold: u64) {
        let untold = (untold > 0).then_some(untold);
        self.write(actor, None, self.asked.as_deref(), untold, &ended_by(refused, false));
    }

    /// Follows the call while it runs; `None` if it changes nothing.
    pub(super) fn begin(self, actor: Actor) -> Option<AuditTrail> {
        self.is_change.then_some(AuditTrail { actor, call: self, old: None, is_running: false })
    }

    fn write(
        &self,
        actor: &Actor,
        old: Option<&str>,
        new: Option<&str>,
        untold: Option<u64>,
        outcome: &AuditOutcome<'_>,
    ) {
        let (tag, worker) = (self.tag.as_deref(), self.worker);
        actor.log(&AuditEntry { action: self.action, tag, worker, old, new, untold }, outcome);
    }
}

impl AuditTrail {
    /// The call's turn has come: from now on it may change something.
    pub(super) fn runs(&mut self) {
        self.is_running = true;
    }

    /// How the thing was before the change.
    pub(super) fn was(&mut self, old: String) {
        self.old = Some(old);
    }

    /// Writes what became of the call.
    pub(super) fn end(mut self, reply: &Reply) {
        let has_run = std::mem::replace(&mut self.is_running, false);
        let (call, actor) = (&self.call, &self.actor);
        if let Reply::Error(refused) = reply {
            let asked = call.asked.as_deref();
            let outcome = ended_by(refused, has_run);
            return call.write(actor, self.old.as_deref(), asked, None, &outcome);
        }
        let new = match reply {
            Reply::Tags(tags) => tags.first().map(|tag| now(call, tag)),
            Reply::Workers(workers) => workers.first().map(state),
            _ => None,
        };
        call.write(actor, self.old.as_deref(), new.as_deref(), None, &AuditOutcome::Done);
    }
}

impl Drop for AuditTrail {
    fn drop(&mut self) {
        if self.is_running {
            let asked = self.call.asked.as_deref();
            self.call.write(&self.actor, self.old.as_deref(), asked, None, &AuditOutcome::Unknown);
        }
    }
}

/// `has_run`: whether the call's turn had come, so that it may have changed something.
fn ended_by(error: &WireError, has_run: bool) -> AuditOutcome<'_> {
    let code = error.code();
    let (name, reason) = (code.to_string(), error.message.as_str());
    match code {
        ErrorCode::StoreUnavailable | ErrorCode::RegistryUnavailable if has_run => {
            AuditOutcome::Failed(name, reason)
        }
        _ => AuditOutcome::Refused(name, reason),
    }
}

/// What a tag is like after `call`.
fn now(call: &AuditedCall, tag: &TagStatus) -> String {
    match call.action {
        "tag-create" => format!("step {}, first {}", tag.row_step, tag.max_id),
        "tag-delete" => format!("gone, a new one begins at {}", tag.max_id),
        _ => format!("step {}", tag.row_step),
    }
}

fn state(worker: &WorkerStatus) -> String {
    match worker.state {
        WorkerState::Released => "free".to_owned(),
        _ => format!("held by {}", worker.owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_whose_answer_was_lost_is_not_called_refused() {
        let verdict = |code, has_run| {
            let error = WireError::new(code, "no answer");
            matches!(ended_by(&error, has_run), AuditOutcome::Failed(name, "no answer")
                if name == code.to_string())
        };
        assert!(verdict(ErrorCode::StoreUnavailable, true));
        assert!(verdict(ErrorCode::RegistryUnavailable, true));
        assert!(!verdict(ErrorCode::StoreUnavailable, false));
        assert!(!verdict(ErrorCode::TagExists, true));
    }
}
