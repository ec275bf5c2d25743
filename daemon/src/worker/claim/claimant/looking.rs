//! What a reading of the registry leads to.

use super::super::instance::Ages;
use super::super::name::NodeName;
use super::super::plan::{self, Claim};
use super::super::step::{Moment, RememberedClaim};
use super::super::view::{RegistryView, WorkerEntry};
use super::super::write::{Key, RegistryWrite};
use super::{AfterCommit, ClaimStage, Claimant, Exhausted, java};
use crate::snowflake::last_use::LastUse;

/// Without a worker ID, how often to look for one that was freed (ms).
const GLANCE_MS: u64 = 4000;

/// At least this often, also read the records of all instances that are gone (ms).
const SURVEY_MS: u64 = 60_000;

impl Claimant {
    pub(super) fn looked(&mut self, now: Moment, view: &RegistryView, survey: bool) {
        self.in_doubt = false;
        self.registry_clock = Some(LastUse { clock_ms: view.now_ms, boot_ms: now.boot_ms });
        // An instance that issues does so in the layout that it began with.
        if !self.serving
            && let Err(why) = plan::same_layout(&self.me, &self.rules.words, view)
        {
            return self.bar(now, why, false, 5000);
        }
        let own_live = self.registered.as_ref().and_then(|registered| {
            view.lives.iter().find(|(name, live)| {
                let nonce = live.value.as_ref().map(|live| live.nonce.as_str());
                *name == registered.name && nonce == Ok(self.me.nonce.as_str())
            })
        });
        let own_created = own_live.map(|(_, live)| live.created);
        if own_live.is_none() {
            // The session has ended, or the registry's data is other data.
            self.registered = None;
        }
        if let Some((name, where_)) = plan::twin(&self.me, view, own_created) {
            return self.yield_to_twin(now, view, &name, &where_);
        }
        self.twin_since = None;
        if let Some(why) = self.waits_for_java(view) {
            return self.bar(now, why, false, 3000);
        }
        let mine = plan::mine(&self.me, view, self.claimed().map(|memory| memory.worker));
        if let Some(memory) = self.claimed().cloned()
            && mine.is_none_or(|entry| entry.name.sequence() != memory.worker)
        {
            // After its limit nobody knows who had it in the meantime.
            let is_known = view.now_ms < memory.limit_ms && !self.is_over(&memory, now);
            if is_known && plan::is_nobodys(&self.me, view, memory.worker) {
                let claim = plan::put_back(&self.me, view, &memory);
                return self.claim(now, claim);
            }
            self.lose();
            let text =
                format!("worker ID {} is another instance's now; claiming one", memory.worker);
            self.stop(text, true);
        }
        if let Some(entry) = mine {
            return self.go_on_with(now, view, entry);
        }
        self.claim_new(now, view, survey);
    }

    /// Another instance lives under this identity.
    pub(super) fn yield_to_twin(
        &mut self,
        now: Moment,
        view: &RegistryView,
        name: &NodeName,
        where_: &str,
    ) {
        let since = *self.twin_since.get_or_insert(now.boot_ms);
        // Its session may be that of a life that was killed, and ends by itself.
        let soon = now.boot_ms.saturating_sub(since) <= self.rules.session_ms + 1000;
        let identity = self.me.identity();
        let why = if soon {
            format!(
                "another instance is registered as {identity:?} ({where_}); waiting for its end"
            )
        } else {
            format!(
                "another instance lives as {identity:?} ({where_}, node {name}); give each \
                 instance a worker.identity of its own"
            )
        };
        self.bar(now, why, soon, if soon { 500 } else { 3000 });
        // It leaves no node behind that it has just made.
        let created = self.created.take();
        if let Some(ops) = created.and_then(|created| plan::remove_created(view, &created)) {
            self.stage =
                ClaimStage::Committing { ops, then: AfterCommit::Abandoned { pause_ms: 500 } };
        }
        self.abandon(3000);
    }

    /// Takes the claim of this life out of the registry, unless it was used.
    pub(super) fn abandon(&mut self, pause_ms: u64) {
        let Some(registered) = self.registered.take() else { return };
        let name = &registered.name;
        let versions = (registered.leaf_version, registered.holder_version);
        let mut ops = vec![RegistryWrite::Delete(Key::live(name), 0)];
        match (registered.settle_until, registered.start_ms) {
            (None, _) => {}
            // Nobody ever had it.
            (Some(_), 0) => {
                ops.push(RegistryWrite::Delete(Key::holder(name), versions.1));
                ops.push(RegistryWrite::Delete(Key::leaf(name), versions.0));
            }
            (Some(_), start_ms) => ops = plan::give_back(name, versions, start_ms),
        }
        self.created = None;
        self.stage = ClaimStage::Committing { ops, then: AfterCommit::Abandoned { pause_ms } };
    }

    /// The registry has a claim of this state directory.
    pub(super) fn go_on_with(&mut self, now: Moment, view: &RegistryView, entry: &WorkerEntry) {
        let Some(holder) = entry.holder() else { return };
        let quiet = self.quiet(now, view, entry);
        if let Some(rival) = plan::rival(view, entry) {
            let worker = entry.name.sequence();
            if self.memory.as_ref().is_some_and(|memory| memory.worker == worker) {
                self.lose();
            }
            let text = format!("worker ID {worker} is also that of {rival}; claiming another one");
            self.met_rival = true;
            self.bar(now, text, true, 500);
            return self.give_up(view, entry);
        }
        if plan::is_written_by_others(entry) && !quiet.is_enough() {
            let text = java::writes_ours(entry, quiet, self.serving);
            self.contest(&text);
            return self.bar(now, text, false, 1000);
        }
        if plan::is_torn(entry, holder) && !quiet.is_enough() {
            self.stage = ClaimStage::Pausing { until: now.boot_ms + 50 };
            return;
        }
        let Some(registered) = self.registered.clone().filter(|own| own.name == entry.name) else {
            return self.claim(now, self.again(now, view, entry));
        };
        let versions = (registered.leaf_version, registered.holder_version);
        let there = (entry.leaf.version, entry.holder.as_ref().map_or(0, |holder| holder.version));
        if versions != there {
            // A write whose answer was lost, or somebody else's that is over.
            self.registered = None;
            return self.claim(now, self.again(now, view, entry));
        }
        // A Java Leaf that had just started when this node was made has written its own by now.
        if registered.settle_until.is_some()
            && let Some(why) = self.beside_java(now, view)
        {
            self.bar(now, why, false, 1000);
            return self.abandon(1000);
        }
        self.barred = false;
        match registered.settle_until {
            Some(until) if now.boot_ms < until => self.stage = ClaimStage::Pausing { until },
            Some(_) => {
                let ops = plan::settle(&self.me, view, entry, holder);
                self.stage = ClaimStage::Committing { ops, then: AfterCommit::Settled };
            }
            None if self.serving => self.stage = ClaimStage::Holding { until: now.boot_ms },
            None => self.stage = ClaimStage::Asking,
        }
    }

    pub(super) fn again(&self, now: Moment, view: &RegistryView, entry: &WorkerEntry) -> Claim {
        let worker = entry.name.sequence();
        let memory = self.memory.as_ref().filter(|memory| memory.worker == worker);
        // The registry's clock says enough, unless it may jump.
        let is_in_time = |memory: &RememberedClaim| {
            view.now_ms < memory.limit_ms
                && (self.rules.ages == Ages::Told || !self.is_over(memory, now))
        };
        let is_sure = self.serving || memory.is_some_and(is_in_time);
        plan::take_again(&self.me, view, entry, memory, is_sure)
    }

    /// Leaves a worker ID to the other one that has it, and removes its own record of it.
    pub(super) fn give_up(&mut self, view: &RegistryView, entry: &WorkerEntry) {
        self.registered = None;
        self.created = None;
        let ops = plan::give_up(view, entry);
        self.stage = ClaimStage::Committing { ops, then: AfterCommit::Abandoned { pause_ms: 500 } };
    }

    /// For how long the records that were read have been unchanged, if that has to be observed.
    fn seen_unchanged(&mut self, now: Moment, view: &RegistryView) -> plan::SeenUnchanged {
        if self.rules.ages == Ages::Told {
            return None;
        }
        let quiet = |entry: &WorkerEntry| (entry.name.clone(), self.quiet(now, view, entry).for_ms);
        Some(view.entries.iter().map(quiet).collect())
    }

    /// The registry has no claim of this state directory.
    pub(super) fn claim_new(&mut self, now: Moment, view: &RegistryView, survey: bool) {
        if let Some(created) = self.created.take().or_else(|| plan::unclaimed(&self.me, view)) {
            if let Some(claim) = plan::claim_created(&self.me, view, &created) {
                self.created = Some(created);
                return self.claim(now, claim);
            }
            if let Some(ops) = plan::remove_created(view, &created) {
                let then = AfterCommit::Abandoned { pause_ms: 0 };
                self.stage = ClaimStage::Committing { ops, then };
                return;
            }
        }
        if self.joins_java(now, view) {
            return;
        }
        let seen = self.seen_unchanged(now, view);
        let pick = self.random.usize(..);
        if let Some(claim) = plan::take_free(&self.me, view, pick) {
            return self.claim(now, claim);
        }
        if let Some(claim) = plan::reclaim(&self.me, &self.rules, (view, &seen), pick, true) {
            return self.claim(now, claim);
        }
        // Numbers that come in order can be foreseen and put back by others; of the rest each is as likely.
        let can_create = plan::can_create(&self.me, view);
        if can_create && !self.met_rival && !plan::next_is_taken(view) {
            self.stage = ClaimStage::Creating;
            return;
        }
        if let Some(claim) = plan::take_vacant(&self.me, &self.rules, view, pick) {
            return self.claim(now, claim);
        }
        // Beside Java Leaf every number comes in order.
        if can_create && self.rules.reclaim_after_ms.is_none() {
            self.stage = ClaimStage::Creating;
            return;
        }
        if !survey {
            match &self.exhausted {
                Some(it) if now.boot_ms < it.until && it.live == view.live => {
                    let why = it.why.clone();
                    self.bar(now, why, false, GLANCE_MS);
                }
                _ => self.stage = ClaimStage::Looking { survey: true },
            }
            return;
        }
        if let Some(claim) = plan::reclaim(&self.me, &self.rules, (view, &seen), pick, false) {
            return self.claim(now, claim);
        }
        let (why, in_ms) = plan::exhausted(&self.me, &self.rules, (view, &seen));
        let in_ms = in_ms.clamp(2000, SURVEY_MS);
        let (live, until) = (view.live.clone(), now.boot_ms + in_ms);
        self.exhausted = Some(Exhausted { live, until, why: why.clone() });
        self.bar(now, why, false, in_ms.min(GLANCE_MS));
    }
}
