//! What the log says of the claim, without saying the same thing again and again.

use std::time::Duration;

use leaf_client::wire::ErrorCode;
use tokio::time::Instant;

use super::claim::instance::RegistryWords;
use super::claim::registrar::IssuerOrder;
use crate::environment::Environment;

/// Minimum interval between two lines about calls that fail.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct RegistrarLog {
    identity: String,
    words: RegistryWords,
    environment: Environment,
    /// Why there are no IDs, as it was logged last, without its numbers.
    reason: String,
    /// When a failing call was logged last, if none has succeeded since.
    trouble: Option<Instant>,
}

impl RegistrarLog {
    pub(super) const fn new(
        identity: String,
        words: RegistryWords,
        environment: Environment,
    ) -> Self {
        Self { identity, words, environment, reason: String::new(), trouble: None }
    }

    pub(super) fn write(&mut self, order: &IssuerOrder) {
        match order {
            IssuerOrder::Begin { worker, is_registered, .. } => self.begin(*worker, *is_registered),
            IssuerOrder::Suspend { why, soon } => self.suspend(why, *soon),
            IssuerOrder::Trouble(why) => self.trouble(why),
            IssuerOrder::Fine => {
                if self.trouble.take().is_some() {
                    tracing::info!("{} answers again", self.words.name);
                }
            }
            IssuerOrder::NotGivenBack(why) => {
                tracing::error!("the worker ID is not given back, the worker file is not: {why}");
            }
            IssuerOrder::Reported { .. } | IssuerOrder::Hold { .. } => {}
        }
    }

    fn begin(&mut self, worker: u64, is_registered: bool) {
        self.reason.clear();
        let identity = &self.identity;
        if is_registered {
            tracing::info!(worker, identity, "worker ID");
        } else {
            tracing::warn!(worker, identity, "{}", self.words.served_from_file);
        }
    }

    fn suspend(&mut self, why: &str, soon: bool) {
        // Numbers in it change at each attempt: seconds to wait, the difference of clocks.
        let gist = why.replace(|c: char| c.is_ascii_digit(), "");
        if self.reason == gist {
            return;
        }
        let error = ErrorCode::WorkerUnavailable;
        if soon {
            tracing::info!(%error, "no snowflake IDs yet: {why}");
        } else {
            tracing::error!(%error, "no snowflake IDs: {why}");
        }
        self.reason = gist;
    }

    fn trouble(&mut self, why: &str) {
        let is_due = |last| self.environment.since(last) > TROUBLE_INTERVAL;
        if self.trouble.is_none_or(is_due) {
            let error = ErrorCode::RegistryUnavailable;
            tracing::warn!(%error, "{why}; trying again");
            self.trouble = Some(self.environment.now());
        }
    }
}
