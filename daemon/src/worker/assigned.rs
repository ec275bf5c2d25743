//! The shell around [`Assignee`]: asks the database what it wants, and tells the issuer what follows. It
//! decides nothing.

use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::registry::worker_node::assignee::Assignee;
use super::registry::worker_node::messages::{
    NodeAction, NodeEffect, NodeMoment, NodeOutcome, NodeRow, NodeRules, RememberedRow,
};
use super::registry::worker_node::{WorkerNodeAccess, WorkerNodeTable};
use crate::environment::Environment;
use crate::snowflake::issuer::Issuer;
use crate::snowflake::life::Begin;
use crate::snowflake::sequencer::SequencerRules;
use crate::state::worker_file::{SharedClaim, Standing, WorkerRecord};

/// Longest wait before the clock is read again: it counts suspension, the wait does not.
const NAP: Duration = Duration::from_secs(1);

/// Minimum interval between two lines about calls that fail.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(60);

/// Minimum interval between two warnings that say the same.
const WARNING_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// How to issue with the worker ID of a row.
#[derive(Debug, Clone)]
pub(crate) struct AssignedRules {
    pub(crate) rows: NodeRules,
    /// The rules of the sequence; the worker ID is put in.
    pub(crate) sequence: SequencerRules,
    /// Of this instance, for the readers of table and worker file.
    pub(crate) identity: String,
}

pub(crate) struct AssignedWorker {
    assignee: Assignee,
    rules: AssignedRules,
    /// What the worker file calls the table.
    registry: String,
    table: WorkerNodeTable,
    issuer: Issuer,
    environment: Environment,
    /// The row that the worker file has, as far as is known.
    in_file: Option<NodeRow>,
    /// Why there are no IDs, as it was logged last, without its numbers.
    reason: String,
    warned: Option<(String, Instant)>,
    trouble: Option<Instant>,
}

impl AssignedWorker {
    /// One for the life with the name `nonce`. `file` is what the last life has left.
    pub(crate) fn new(
        rules: AssignedRules,
        access: WorkerNodeAccess,
        nonce: String,
        file: &WorkerRecord,
        issuer: Issuer,
        environment: Environment,
    ) -> Self {
        let registry = access.name();
        let remembered = remembered(file, &registry, &rules.sequence.layout.to_string());
        let (boot_ms, clock_ms) = (environment.boot_ms(), environment.unix_ms());
        let in_file = remembered.as_ref().map(|file| file.row.clone());
        let now = NodeMoment { boot_ms, clock_ms };
        let assignee = Assignee::new(rules.rows, nonce, remembered, now);
        let table = WorkerNodeTable::new(access, &rules.identity);
        let reason = String::new();
        let (warned, trouble) = (None, None);
        Self {
            assignee,
            rules,
            registry,
            table,
            issuer,
            environment,
            in_file,
            reason,
            warned,
            trouble,
        }
    }

    fn now(&self) -> NodeMoment {
        NodeMoment { boot_ms: self.environment.boot_ms(), clock_ms: self.environment.unix_ms() }
    }

    /// Takes a row, and looks after it until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            while let Some(effect) = self.assignee.effect() {
                if stop.run_until_cancelled(self.follow(effect)).await.is_none() {
                    break;
                }
            }
            let sent = self.now();
            let action = self.assignee.next(sent);
            let outcome = match action {
                NodeAction::Pause(until_ms) => {
                    let wait = Duration::from_millis(until_ms.saturating_sub(sent.boot_ms).max(1));
                    stop.run_until_cancelled(tokio::time::sleep(wait.min(NAP))).await;
                    NodeOutcome::Paused
                }
                action => match stop.run_until_cancelled(self.table.execute(&action)).await {
                    Some(outcome) => outcome,
                    None => break,
                },
            };
            let now = self.now();
            self.assignee.done(sent, now, outcome);
        }
        self.table.close().await;
    }

    /// What the next start may rely on while the database does not answer.
    fn shared(&self, row: &NodeRow, limit_ms: u64) -> SharedClaim {
        SharedClaim {
            registry: self.registry.clone(),
            nonces: vec![row.nonce.clone()],
            limit_ms,
            reported: Some((self.environment.boot_id(), self.environment.boot_ms())),
            standing: Standing::Own,
        }
    }

    fn limit_ms(&self) -> u64 {
        self.environment.unix_ms().saturating_add(self.rules.rows.fence_after_ms)
    }

    async fn follow(&mut self, effect: NodeEffect) {
        match effect {
            NodeEffect::Begin { row, start_ms, limit_ms } => {
                if self.in_file.as_ref().is_some_and(|in_file| *in_file != row) {
                    self.forget().await;
                }
                self.begin(&row, start_ms, limit_ms).await;
            }
            NodeEffect::Reported(row) => {
                let shared = self.shared(&row, self.limit_ms());
                self.issuer.reported(u64::MAX, shared);
            }
            NodeEffect::Lost { worker, owner } => {
                let error = ErrorCode::WorkerUnavailable;
                let why = format!(
                    "worker ID {worker} is {owner}'s now, and both may have issued with it; taking \
                     another one"
                );
                // Before anything else.
                self.issuer.suspend(WireError::new(error, &*why).with_retry_after_ms(1000), true);
                tracing::error!(%error, "{why}");
            }
            NodeEffect::Forget => self.forget().await,
            NodeEffect::None { why, soon } => self.suspend(why, soon),
            NodeEffect::Warn(text) => self.warn(text),
            NodeEffect::Trouble(why) => self.failed(why),
            NodeEffect::Fine => {
                self.issuer.registration(|it| it.error.clear());
                if self.trouble.take().is_some() {
                    tracing::info!("the table of worker IDs answers again");
                }
            }
        }
    }

    /// Writes that no start may go on with the row in the worker file: nobody looks after it from now on.
    async fn forget(&mut self) {
        let Some(row) = self.in_file.take() else { return };
        while let Err(why) = self.issuer.remember(self.shared(&row, 0)).await {
            self.tell_trouble(&format!("the worker file cannot be written: {why}"));
            tokio::time::sleep(NAP).await;
        }
    }

    async fn begin(&mut self, row: &NodeRow, start_ms: u64, limit_ms: Option<u64>) {
        self.reason.clear();
        let (worker, identity) = (row.worker, self.rules.identity.clone());
        match limit_ms {
            None => tracing::info!(worker, identity, "worker ID"),
            Some(_) => tracing::warn!(
                worker,
                identity,
                "the table of worker IDs cannot be asked; going on with the worker ID of the last \
                 start"
            ),
        }
        let rules = SequencerRules { worker, ..self.rules.sequence };
        // It stays this instance's.
        let shared = self.shared(row, limit_ms.unwrap_or_else(|| self.limit_ms()));
        let remembered = Some(shared.clone());
        let begin = Begin { rules, start_ms, limit_ms: u64::MAX, identity, shared: remembered };
        self.issuer.begin(begin);
        self.in_file = Some(row.clone());
        // The next start needs it even if nobody asks for an ID; whoever does has it written, too.
        if let Err(why) = self.issuer.remember(shared).await {
            self.tell_trouble(&format!("the worker file cannot be written: {why}"));
        }
    }

    fn suspend(&mut self, why: String, soon: bool) {
        let gist = gist(&why);
        let error = ErrorCode::WorkerUnavailable;
        if self.reason != gist {
            if soon {
                tracing::info!(%error, "no snowflake IDs yet: {why}");
            } else {
                tracing::error!(%error, "no snowflake IDs: {why}");
            }
            self.reason = gist;
        }
        self.issuer.suspend(WireError::new(error, why).with_retry_after_ms(1000), soon);
    }

    fn warn(&mut self, text: String) {
        let gist = gist(&text);
        let is_due = |(told, at): &(String, Instant)| {
            *told != gist || self.environment.since(*at) > WARNING_INTERVAL
        };
        if self.warned.as_ref().is_none_or(is_due) {
            tracing::warn!("{text}");
            self.warned = Some((gist, self.environment.now()));
        }
    }

    fn failed(&mut self, why: String) {
        self.tell_trouble(&why);
        self.issuer.registration(|it| it.error = why);
    }

    fn tell_trouble(&mut self, why: &str) {
        let is_due = |last| self.environment.since(last) > TROUBLE_INTERVAL;
        if self.trouble.is_none_or(is_due) {
            let error = ErrorCode::RegistryUnavailable;
            tracing::warn!(%error, "{why}; trying again");
            self.trouble = Some(self.environment.now());
        }
    }
}

/// A text without its numbers, which change at each attempt.
fn gist(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// The row of the last life, if it is this table's and was used in this layout.
fn remembered(file: &WorkerRecord, registry: &str, layout: &str) -> Option<RememberedRow> {
    let shared = file.shared.as_ref()?;
    let is_own = shared.registry == registry && file.layout == layout;
    let nonce = shared.nonces.first().filter(|_| is_own)?.clone();
    let row = NodeRow { worker: file.worker?, nonce };
    Some(RememberedRow { row, ceiling_ms: file.ceiling_ms, limit_ms: shared.limit_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_file_of_another_table_or_layout_gives_no_row() {
        let shared = SharedClaim {
            registry: "worker-node WORKER_NODE".into(),
            nonces: vec!["a".into(), "b".into()],
            limit_ms: 9,
            ..SharedClaim::default()
        };
        let file = WorkerRecord {
            worker: Some(7),
            layout: "l".into(),
            ceiling_ms: 5,
            shared: Some(shared),
            ..WorkerRecord::fresh()
        };
        let found = remembered(&file, "worker-node WORKER_NODE", "l").unwrap();
        assert_eq!(found.row, NodeRow { worker: 7, nonce: "a".into() });
        assert_eq!((found.ceiling_ms, found.limit_ms), (5, 9));
        assert!(remembered(&file, "worker-node OTHER", "l").is_none());
        assert!(remembered(&file, "worker-node WORKER_NODE", "m").is_none());
        assert!(remembered(&WorkerRecord::fresh(), "worker-node WORKER_NODE", "l").is_none());
    }
}
