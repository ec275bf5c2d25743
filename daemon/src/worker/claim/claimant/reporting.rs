//! The reports of a holder, from the first one, after which it issues, to the last one.

use super::super::instance::ClaimRules;
use super::super::plan;
use super::super::step::{ClaimEffect, Moment, RememberedClaim};
use super::super::write::{Key, RegistryWrite};
use super::{AfterCommit, ClaimStage, Claimant, RegisteredClaim};
use crate::state::worker_file::Standing;
use crate::worker::peers::Verdict;

/// A request may be ahead of the clock by the lead and a time unit of the layout, 1 s each at most.
const AWAITED_AHEAD_MS: u64 = 2000;

impl RegisteredClaim {
    /// `time_ms` is the time to report, if the ceiling is not later.
    fn report(&self, time_ms: u64, now: Moment, rules: &ClaimRules) -> plan::ClaimReport<'_> {
        let ceiling_ms = now.ceiling_ms.max(self.start_ms);
        let timestamp_ms = time_ms.max(ceiling_ms);
        // A request that waits has not used its time yet, so the timestamp leaves it out.
        let needed_ms = timestamp_ms.max(now.awaited_ms);
        plan::ClaimReport {
            name: &self.name,
            versions: (self.leaf_version, self.holder_version),
            timestamp_ms,
            ceiling_ms,
            limit_ms: self.limit_ms.max(rules.limit(needed_ms)),
        }
    }
}

impl Claimant {
    pub(super) fn asked(&mut self, now: Moment, verdict: Verdict) {
        self.clock_differs = matches!(verdict, Verdict::Differs { .. });
        match verdict {
            Verdict::Differs { mean_ms } => {
                let text = format!(
                    "the clock differs by {mean_ms} ms from the mean of the other instances'; set \
                     it right (NTP), or worker.max-clock-offset"
                );
                self.bar(now, text, false, 3000);
            }
            Verdict::Agrees { .. } | Verdict::NobodyAnswered => self.report(now),
        }
    }

    pub(super) fn report(&mut self, now: Moment) {
        let Some(registered) = &self.registered else {
            self.stage = ClaimStage::Looking { survey: false };
            return;
        };
        let report = registered.report(self.time_to_report(now), now, &self.rules);
        let (ops, limit_ms) = (plan::report(&self.me, &report), report.limit_ms);
        self.stage = ClaimStage::Committing { ops, then: AfterCommit::Report { limit_ms } };
    }

    /// The host's clock, as far as use or the registry's clock bears it out. If a clock that is wrong
    /// for a while, and that nobody uses, left its time in the registry, every later holder of this
    /// worker ID would have to wait for that time, this instance too.
    pub(super) fn time_to_report(&self, now: Moment) -> u64 {
        let registry = self.registry_clock.as_ref();
        let registry_ms = registry.map_or(0, |it| it.now_ms(now.clock_ms, now.boot_ms));
        now.clock_ms.min(now.use_ms.max(registry_ms))
    }

    /// Whether a request waits for more time than the last report allows.
    pub(super) fn is_report_awaited(&self, now: Moment) -> bool {
        let limit_ms = self.registered.as_ref().map_or(u64::MAX, |it| it.limit_ms);
        now.awaited_ms > 0 && now.awaited_ms.saturating_add(AWAITED_AHEAD_MS) >= limit_ms
    }

    pub(super) fn reported(&mut self, now: Moment, limit_ms: u64) {
        let Some(registered) = &mut self.registered else { return };
        registered.leaf_version += 1;
        registered.holder_version += 1;
        registered.limit_ms = limit_ms;
        let worker = registered.name.sequence();
        let ceiling_ms = now.ceiling_ms.max(registered.start_ms);
        self.memory =
            Some(RememberedClaim { worker, ceiling_ms, limit_ms, reported_boot_ms: now.boot_ms });
        self.standing = Standing::Own;
        if self.serving {
            self.effects.push(ClaimEffect::Reported { limit_ms });
        } else {
            self.serving = true;
            let start_ms = registered.start_ms;
            self.effects.push(ClaimEffect::Serve { worker, start_ms, limit_ms });
            self.effects.push(ClaimEffect::Reported { limit_ms });
        }
        self.stage = ClaimStage::Holding { until: now.boot_ms + self.rules.report_ms };
    }

    /// What to write at the end: the last report and no live node; or, to give the worker ID back,
    /// its node among the free ones. Nothing may be issued any more. `None` without a claim.
    pub(crate) fn closing(&self, now: Moment, give_back: bool) -> Option<Vec<RegistryWrite>> {
        let registered = self.registered.as_ref()?;
        let ceiling_ms = now.ceiling_ms.max(registered.start_ms);
        if registered.settle_until.is_some() || give_back {
            return Some(plan::give_back(
                &registered.name,
                (registered.leaf_version, registered.holder_version),
                ceiling_ms,
            ));
        }
        let report = registered.report(self.time_to_report(now), now, &self.rules);
        let mut ops = plan::report(&self.me, &report);
        ops.push(RegistryWrite::Delete(Key::live(&registered.name), 0));
        Some(ops)
    }
}
