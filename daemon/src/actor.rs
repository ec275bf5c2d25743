//! Who asks leafd for something, and the audit: a line in the log for whatever somebody changes, or
//! tries to change, through leafd.

use std::net::SocketAddr;
use std::sync::Arc;

/// The target of the audit's lines. `log.level` hides them only if it names it.
pub(crate) const AUDIT: &str = "audit";

/// Who asked. There is no process ID: by the time somebody reads it, it may belong to another
/// process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actor {
    /// The user, if the transport knows it.
    pub(crate) uid: Option<u32>,
    /// Its effective group.
    pub(crate) gid: Option<u32>,
    /// Where it connected from, by TCP: the caller itself, or a proxy in front of it.
    pub(crate) address: Option<SocketAddr>,
    /// The rule that the caller has shown a token of.
    pub(crate) rule: Option<Arc<str>>,
    /// How it reached leafd, such as `unix`.
    pub(crate) transport: &'static str,
}

/// What somebody changed or tried to change, for the audit.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditEntry<'a> {
    /// Such as `tag-create`.
    pub(crate) action: &'static str,
    pub(crate) tag: Option<&'a str>,
    pub(crate) worker: Option<u64>,
    /// How it was before, if there was something.
    pub(crate) old: Option<&'a str>,
    /// How it is now.
    pub(crate) new: Option<&'a str>,
    /// Refused attempts of this user that the audit left out since the last one.
    pub(crate) untold: Option<u64>,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(crate) enum AuditOutcome<'a> {
    Done,
    /// With number and name of the error, and its message.
    Refused(String, &'a str),
    /// As [`Self::Refused`], but the error came from the store or the registry while it was under way:
    /// an answer that is lost does not say whether it was done.
    Failed(String, &'a str),
    /// It was cut off before the outcome was known.
    Unknown,
}

impl Actor {
    /// Writes a line of the audit.
    pub(crate) fn log(&self, entry: &AuditEntry<'_>, outcome: &AuditOutcome<'_>) {
        let Self { uid, gid, address, transport, .. } = *self;
        let address = address.map(tracing::field::display);
        let rule = self.rule.as_deref();
        let AuditEntry { action, tag, worker, old, new, untold } = *entry;
        let (verdict, outcome, reason) = match outcome {
            AuditOutcome::Done => ("done", "done", None),
            AuditOutcome::Refused(error, reason) => ("refused", error.as_str(), Some(*reason)),
            AuditOutcome::Failed(error, reason) => ("failed", error.as_str(), Some(*reason)),
            AuditOutcome::Unknown => {
                let reason =
                    "the caller left, or leafd stopped, before it was known whether it is done";
                ("unknown", "unknown", Some(reason))
            }
        };
        tracing::info!(
            target: AUDIT,
            uid,
            gid,
            address,
            rule,
            transport,
            action,
            tag,
            worker,
            old,
            new,
            outcome,
            reason,
            untold,
            "{action} {verdict}"
        );
    }
}
