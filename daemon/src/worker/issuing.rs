//! The issuer of snowflake IDs as the user of a claimed worker ID.

use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};

use super::claim::instance::RegistryWords;
use super::claim::registrar::IssuerOrder;
use super::peers::{self, Verdict};
use super::registrar_log::RegistrarLog;
use super::shell::ClaimUser;
use crate::environment::Environment;
use crate::snowflake::issuer::Issuer;
use crate::snowflake::life::{Begin, Progress};
use crate::snowflake::sequencer::SequencerRules;
use crate::state::worker_file::SharedClaim;

/// How long the other instances have to tell their time.
const ASKING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct IssuingRules {
    /// The rules of the sequence; the worker ID is put in.
    pub(crate) sequence: SequencerRules,
    /// From how many ms on the clock differs too much from the others'.
    pub(crate) max_offset_ms: u64,
    /// Whether the worker ID is given back at the end.
    pub(crate) give_back: bool,
}

pub(crate) struct IssuingUser {
    rules: IssuingRules,
    identity: String,
    issuer: Issuer,
    environment: Environment,
    log: RegistrarLog,
}

impl IssuingUser {
    pub(crate) fn new(
        rules: IssuingRules,
        identity: String,
        words: RegistryWords,
        issuer: Issuer,
        environment: Environment,
    ) -> Self {
        let log = RegistrarLog::new(identity.clone(), words, environment.clone());
        Self { rules, identity, issuer, environment, log }
    }
}

impl ClaimUser for IssuingUser {
    fn progress(&self) -> Progress {
        self.issuer.progress()
    }

    fn last_ceiling_ms(&self) -> u64 {
        self.issuer.last_ceiling_ms()
    }

    async fn remember(&self, shared: SharedClaim) -> Result<(), String> {
        self.issuer.remember(shared).await
    }

    async fn report_is_due(&self) {
        self.issuer.report_is_due().await;
    }

    async fn compare_clocks(&self, others: Vec<String>) -> Verdict {
        let count = others.len();
        let times = peers::ask_all(others, self.environment.clone(), ASKING).await;
        let verdict = peers::verdict(&times, self.rules.max_offset_ms);
        let answered = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let offset_ms = peers::mean_offset_ms(&times);
        self.issuer.registration(|registration| {
            (registration.offset_ms, registration.peers) = (offset_ms, answered);
        });
        if count > 0 && answered == 0 {
            tracing::warn!(
                instances = count,
                "no other instance has told its time, so this clock is not compared"
            );
        } else {
            tracing::info!(
                instances = count,
                answered,
                offset_ms,
                "asked the others for their time"
            );
        }
        verdict
    }

    fn compares_clocks(&self) -> bool {
        true
    }

    fn gives_back(&self) -> bool {
        self.rules.give_back
    }

    fn follow(&mut self, order: IssuerOrder) {
        self.log.write(&order);
        let unavailable = |why: String| {
            WireError::new(ErrorCode::WorkerUnavailable, why).with_retry_after_ms(1000)
        };
        match order {
            IssuerOrder::Begin { worker, start_ms, limit_ms, shared, .. } => {
                let rules = SequencerRules { worker, ..self.rules.sequence };
                let (identity, shared) = (self.identity.clone(), Some(shared));
                self.issuer.begin(Begin { rules, start_ms, limit_ms, identity, shared });
            }
            IssuerOrder::Reported { limit_ms, shared } => self.issuer.reported(limit_ms, shared),
            IssuerOrder::Suspend { why, soon } => self.issuer.suspend(unavailable(why), soon),
            IssuerOrder::Hold { why } => self.issuer.suspend(unavailable(why.to_owned()), true),
            IssuerOrder::Trouble(why) => self.issuer.registration(|it| it.error = why),
            IssuerOrder::Fine => self.issuer.registration(|it| it.error.clear()),
            IssuerOrder::NotGivenBack(_) => {}
        }
    }
}
