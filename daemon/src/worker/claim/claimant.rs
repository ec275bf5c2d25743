//! Which worker ID this instance has, as a plain state machine: what was read of the tree goes in,
//! what to read, to write and to tell comes out. No clock, no ZooKeeper, no waiting.
//!
//! The order of every claim is the same: it is written, the tree is read again, and only who then
//! finds nobody else under the same identity or the same worker ID goes on. ZooKeeper has one
//! order of all writes, so of two that claim at once the later one sees the earlier, and yields.
//! Then the clock is compared with the other instances', a first report is made, and IDs are
//! issued. decisions/012 has the reasons.

mod java;

use super::name::{self, NodeName};
use super::plan::{self, Claim, Me, Rules};
use super::quiet::Watch;
use super::record::Phase;
use super::step::{Action, Effect, Memory, Now, Outcome};
use super::view::{self, Entry, Op, View, Wanted};
use crate::safety::MOST_PAUSE_MS;
use crate::snowflake::last_use::LastUse;
use crate::state::worker_file::Standing;
use crate::worker::peers::Verdict;

/// Who waits for a worker ID looks for one that was freed after so long…
const GLANCE_MS: u64 = 4000;

/// …and reads the records of all that are gone at least after so long.
const SURVEY_MS: u64 = 60_000;

/// A request may be ahead of the clock by the lead and a time unit of the layout, 1 s each at most.
const AWAITED_AHEAD_MS: u64 = 2000;

/// What follows a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Register(Registered),
    Settled,
    Report { limit_ms: u64 },
    Abandoned { pause_ms: u64 },
}

/// A claim that is in the tree, with a live node of this session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Registered {
    name: NodeName,
    leaf_version: i32,
    holder_version: i32,
    /// Not used before this (ms since the boot).
    settle_until: Option<u64>,
    start_ms: u64,
    /// As it stands in the tree.
    limit_ms: u64,
}

impl Registered {
    /// `time_ms` is the time to report, if the ceiling is not later.
    fn report(&self, time_ms: u64, now: Now, rules: &Rules) -> plan::Report<'_> {
        let ceiling_ms = now.ceiling_ms.max(self.start_ms);
        let timestamp_ms = time_ms.max(ceiling_ms);
        // A request that waits has not used its time yet, so that is in no timestamp.
        let needed_ms = timestamp_ms.max(now.awaited_ms);
        plan::Report {
            name: &self.name,
            versions: (self.leaf_version, self.holder_version),
            timestamp_ms,
            ceiling_ms,
            limit_ms: self.limit_ms.max(rules.limit(needed_ms)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Looking { survey: bool },
    Creating,
    Committing { ops: Vec<Op>, then: Then },
    Asking,
    Pausing { until: u64 },
    Holding { until: u64 },
}

/// Every worker ID has an owner, and none can be taken over.
#[derive(Debug)]
struct Exhausted {
    /// It stays so as long as these instances live…
    live: Vec<NodeName>,
    /// …until then (ms since the boot).
    until: u64,
    why: String,
}

/// The state machine.
#[derive(Debug)]
pub struct Claimant {
    me: Me,
    rules: Rules,
    stage: Stage,
    memory: Option<Memory>,
    /// What the worker file says of this identity's nodes, also where it knows of no worker ID.
    standing: Standing,
    /// IDs of `memory.worker` are being issued.
    serving: bool,
    /// Something was seen that forbids to issue until the tree says otherwise.
    barred: bool,
    /// A report did not fit the tree, which has not been read since: somebody else may have written
    /// this instance's node.
    in_doubt: bool,
    /// The other instances' clocks forbid it, as far as was heard last.
    clock_differs: bool,
    registered: Option<Registered>,
    /// What ZooKeeper's clock said (ms since 1970), and when (ms since the boot).
    zookeeper: Option<LastUse>,
    /// A node that this life made and has not claimed yet.
    created: Option<NodeName>,
    /// What was found when all records were last read in vain.
    exhausted: Option<Exhausted>,
    /// Since when another instance lives under this identity (ms since the boot).
    twin_since: Option<u64>,
    failures: u32,
    /// The nodes of this identity, which a Java Leaf may write.
    watch: Watch,
    /// When the present reading of the tree began (ms since the boot).
    look_began: u64,
    effects: Vec<Effect>,
    random: fastrand::Rng,
}

impl Claimant {
    /// One that has not looked yet. `memory` and `standing` are what the worker file says.
    #[must_use]
    pub fn new(
        me: Me,
        rules: Rules,
        memory: Option<Memory>,
        standing: Standing,
        seed: u64,
    ) -> Self {
        Self {
            me,
            rules,
            stage: Stage::Looking { survey: false },
            memory,
            standing,
            serving: false,
            barred: false,
            in_doubt: false,
            clock_differs: false,
            registered: None,
            zookeeper: None,
            created: None,
            exhausted: None,
            twin_since: None,
            failures: 0,
            watch: Watch::default(),
            look_began: 0,
            effects: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// What others have to know since the last call, in order.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether a claim of this life is in the tree, as far as is known.
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Whether IDs are being issued, as far as the claim is concerned.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        self.serving
    }

    /// What to do now.
    pub fn action(&mut self, now: Now) -> Action {
        self.fence(now);
        match &self.stage {
            Stage::Pausing { until } if now.boot_ms >= *until => {
                self.stage = Stage::Looking { survey: false };
            }
            Stage::Holding { until } if now.boot_ms >= *until || self.is_report_awaited(now) => {
                self.report(now);
            }
            _ => {}
        }
        match &self.stage {
            Stage::Looking { survey } => {
                self.look_began = now.boot_ms;
                Action::Look(self.wanted(*survey))
            }
            Stage::Creating => {
                Action::Create { prefix: name::prefix(&self.me.identity), data: self.me.leaf(0) }
            }
            Stage::Committing { ops, .. } => Action::Commit(ops.clone()),
            Stage::Asking => Action::AskPeers,
            Stage::Pausing { until } | Stage::Holding { until } => {
                Action::Pause((*until).min(self.fenced_at().unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes the outcome of the last action.
    pub fn done(&mut self, now: Now, outcome: Outcome) {
        if let Outcome::Failed(why) = outcome {
            return self.failed(now, why);
        }
        if std::mem::take(&mut self.failures) > 0 {
            self.effects.push(Effect::Fine);
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Looking { survey: false });
        match (stage, outcome) {
            (Stage::Looking { survey }, Outcome::Looked(view)) => self.looked(now, &view, survey),
            (Stage::Creating, Outcome::Created(name)) => self.created = Some(name),
            (Stage::Committing { then, .. }, Outcome::Committed) => self.committed(now, then),
            (stage, Outcome::Conflict) => {
                let is_report =
                    matches!(stage, Stage::Committing { then: Then::Report { .. }, .. });
                self.in_doubt |= is_report;
                // Somebody else was quicker; not all of them again at once.
                let until = now.boot_ms + self.random.u64(5..100);
                self.stage = Stage::Pausing { until };
            }
            (Stage::Asking, Outcome::Asked(verdict)) => self.asked(now, verdict),
            // A live node ends with its session, and nobody knows what the tree has gone through.
            (_, Outcome::NewSession) => self.registered = None,
            // An outcome of something else says nothing: look again.
            _ => {}
        }
    }

    fn wanted(&self, survey: bool) -> Wanted {
        let sequence = self.registered.as_ref().map(|registered| registered.name.sequence());
        let remembered = self.claimed().map(|memory| memory.worker);
        Wanted { identity: self.me.identity.clone(), sequence: sequence.or(remembered), survey }
    }

    /// What is remembered of a worker ID that is this instance's.
    fn claimed(&self) -> Option<&Memory> {
        self.memory.as_ref().filter(|memory| memory.limit_ms > 0)
    }

    /// The worker ID is somebody else's now. Its ceiling is kept, should it come back.
    fn lose(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.limit_ms = 0;
        }
        self.effects.push(Effect::Lost);
    }

    /// When issuing has to end without another report (ms since the boot).
    fn fenced_at(&self) -> Option<u64> {
        let memory = self.memory.as_ref().filter(|_| self.serving)?;
        Some(memory.reported_boot_ms.saturating_add(self.rules.fence_after_ms))
    }

    fn fence(&mut self, now: Now) {
        if self.fenced_at().is_some_and(|at| now.boot_ms >= at) {
            self.serving = false;
            self.stop(self.rules.fenced(), false);
        }
    }

    fn stop(&mut self, why: String, soon: bool) {
        self.serving = false;
        self.effects.push(Effect::Stop { why, soon });
    }

    /// No IDs before the tree has been seen in another state.
    fn bar(&mut self, now: Now, why: String, soon: bool, pause_ms: u64) {
        self.barred = true;
        self.stop(why, soon);
        self.pause(now, pause_ms);
    }

    fn pause(&mut self, now: Now, pause_ms: u64) {
        // Not all instances in step.
        let jitter = self.random.u64(0..=pause_ms / 4);
        self.stage = Stage::Pausing { until: now.boot_ms + pause_ms + jitter };
    }

    /// ZooKeeper does not answer: who issues goes on, and who may by the worker file, begins.
    fn failed(&mut self, now: Now, why: String) {
        self.failures = self.failures.saturating_add(1);
        // In an outage nobody writes, which says nothing.
        self.watch.forget();
        // Short, so that whoever lost its node in a loss of data puts it back before it is used.
        let pause_ms = (100u64 << self.failures.min(4)).min(MOST_PAUSE_MS * 4 / 5);
        if self.in_doubt && !self.barred {
            self.bar(now, java::IN_DOUBT.to_owned(), false, pause_ms);
        }
        if !self.serving && !self.barred && !self.clock_differs {
            match self.claimed().cloned() {
                Some(memory) if !self.is_over(&memory, now) => {
                    self.serving = true;
                    self.effects.push(Effect::Serve {
                        worker: memory.worker,
                        start_ms: memory.ceiling_ms,
                        limit_ms: memory.limit_ms,
                    });
                }
                Some(_) => self.stop(format!("{}: {why}", self.rules.fenced()), false),
                None => {
                    let known = java::without_zookeeper(self.standing);
                    self.stop(format!("{known}: {why}"), false);
                }
            }
        }
        self.effects.push(Effect::Trouble(why));
        self.pause(now, pause_ms);
    }

    /// Whether the time without a report is over.
    fn is_over(&self, memory: &Memory, now: Now) -> bool {
        now.clock_ms.max(memory.ceiling_ms) >= memory.limit_ms
            || now.boot_ms >= memory.reported_boot_ms.saturating_add(self.rules.fence_after_ms)
    }

    fn looked(&mut self, now: Now, view: &View, survey: bool) {
        self.in_doubt = false;
        self.zookeeper = Some(LastUse { clock_ms: view.now_ms, boot_ms: now.boot_ms });
        // Who issues already has its IDs in the same layout as ever.
        if !self.serving
            && let Err(why) = plan::same_layout(&self.me, view)
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
            // The session has ended, or the tree is another.
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
    fn yield_to_twin(&mut self, now: Now, view: &View, name: &NodeName, where_: &str) {
        let since = *self.twin_since.get_or_insert(now.boot_ms);
        // Its session may be that of a life that was killed, and ends by itself.
        let soon = now.boot_ms.saturating_sub(since) <= self.rules.session_ms + 1000;
        let identity = &self.me.identity;
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
        // Should it have made a node just now, that is not left behind.
        let created = self.created.take();
        if let Some(ops) = created.and_then(|created| plan::remove_created(view, &created)) {
            self.stage = Stage::Committing { ops, then: Then::Abandoned { pause_ms: 500 } };
        }
        self.abandon(3000);
    }

    /// Takes the claim of this life out of the tree, as far as it was not used.
    fn abandon(&mut self, pause_ms: u64) {
        let Some(registered) = self.registered.take() else { return };
        let name = &registered.name;
        let versions = (registered.leaf_version, registered.holder_version);
        let mut ops = vec![Op::Delete(view::temporary(name), 0)];
        match (registered.settle_until, registered.start_ms) {
            (None, _) => {}
            // Nobody ever had it.
            (Some(_), 0) => {
                ops.push(Op::Delete(view::holder(name), versions.1));
                ops.push(Op::Delete(view::forever(name), versions.0));
            }
            (Some(_), start_ms) => ops = plan::give_back(name, versions, start_ms),
        }
        self.created = None;
        self.stage = Stage::Committing { ops, then: Then::Abandoned { pause_ms } };
    }

    /// The tree has a claim of this state directory.
    fn go_on_with(&mut self, now: Now, view: &View, entry: &Entry) {
        let Some(holder) = entry.holder() else { return };
        let quiet = self.quiet(now, view, entry);
        if let Some(rival) = plan::rival(view, entry) {
            let worker = entry.name.sequence();
            if self.memory.as_ref().is_some_and(|memory| memory.worker == worker) {
                self.lose();
            }
            let text = format!("worker ID {worker} is also that of {rival}; claiming another one");
            self.bar(now, text, true, 500);
            return self.give_up(view, entry);
        }
        if plan::is_written_by_others(entry) && !quiet.is_enough() {
            let text = java::writes_ours(entry, quiet, self.serving);
            self.contest(&text);
            return self.bar(now, text, false, 1000);
        }
        if plan::is_torn(entry, holder) && !quiet.is_enough() {
            self.stage = Stage::Pausing { until: now.boot_ms + 50 };
            return;
        }
        let Some(registered) = self.registered.clone().filter(|own| own.name == entry.name) else {
            return self.claim(now, self.again(view, entry));
        };
        let versions = (registered.leaf_version, registered.holder_version);
        let there = (entry.leaf.version, entry.holder.as_ref().map_or(0, |holder| holder.version));
        if versions != there {
            // A write whose answer was lost, or somebody else's that is over.
            self.registered = None;
            return self.claim(now, self.again(view, entry));
        }
        // One that had just started when this node was made has written its own by now.
        if registered.settle_until.is_some()
            && let Some(why) = self.beside_java(now, view)
        {
            self.bar(now, why, false, 1000);
            return self.abandon(1000);
        }
        self.barred = false;
        match registered.settle_until {
            Some(until) if now.boot_ms < until => self.stage = Stage::Pausing { until },
            Some(_) => {
                let ops = plan::settle(&self.me, view, entry, holder);
                self.stage = Stage::Committing { ops, then: Then::Settled };
            }
            None if self.serving => self.stage = Stage::Holding { until: now.boot_ms },
            None => self.stage = Stage::Asking,
        }
    }

    fn again(&self, view: &View, entry: &Entry) -> Claim {
        let memory = self.memory.as_ref();
        plan::take_again(&self.me, view, entry, memory, self.serving)
    }

    /// A worker ID that somebody else has as well is left to them, record and all.
    fn give_up(&mut self, view: &View, entry: &Entry) {
        self.registered = None;
        self.created = None;
        let ops = plan::give_up(view, entry);
        self.stage = Stage::Committing { ops, then: Then::Abandoned { pause_ms: 500 } };
    }

    /// The tree has no claim of this state directory.
    fn claim_new(&mut self, now: Now, view: &View, survey: bool) {
        if let Some(created) = self.created.take().or_else(|| plan::unclaimed(&self.me, view)) {
            if let Some(claim) = plan::claim_created(&self.me, view, &created) {
                self.created = Some(created);
                return self.claim(now, claim);
            }
            if let Some(ops) = plan::remove_created(view, &created) {
                let then = Then::Abandoned { pause_ms: 0 };
                self.stage = Stage::Committing { ops, then };
                return;
            }
        }
        if self.joins_java(now, view) {
            return;
        }
        let pick = self.random.usize(..);
        if let Some(claim) = plan::take_free(&self.me, view, pick) {
            return self.claim(now, claim);
        }
        if let Some(claim) = plan::reclaim(&self.me, &self.rules, view, pick, true) {
            return self.claim(now, claim);
        }
        if plan::can_create(&self.me, view) {
            self.stage = Stage::Creating;
            return;
        }
        if let Some(claim) = plan::take_vacant(&self.me, &self.rules, view, pick) {
            return self.claim(now, claim);
        }
        if !survey {
            match &self.exhausted {
                Some(it) if now.boot_ms < it.until && it.live == view.live => {
                    let why = it.why.clone();
                    self.bar(now, why, false, GLANCE_MS);
                }
                _ => self.stage = Stage::Looking { survey: true },
            }
            return;
        }
        if let Some(claim) = plan::reclaim(&self.me, &self.rules, view, pick, false) {
            return self.claim(now, claim);
        }
        let (why, in_ms) = plan::exhausted(&self.me, &self.rules, view);
        let in_ms = in_ms.clamp(2000, SURVEY_MS);
        let (live, until) = (view.live.clone(), now.boot_ms + in_ms);
        self.exhausted = Some(Exhausted { live, until, why: why.clone() });
        self.bar(now, why, false, in_ms.min(GLANCE_MS));
    }

    /// What this instance itself may have issued with `worker` lies before this (ms since 1970).
    fn used_until(&self, worker: u64) -> u64 {
        let memory = self.memory.as_ref().filter(|memory| memory.worker == worker);
        memory.map_or(0, |memory| memory.ceiling_ms)
    }

    fn claim(&mut self, now: Now, claim: Claim) {
        let claim_worker = claim.name.sequence();
        let registered = Registered {
            name: claim.name,
            leaf_version: claim.leaf_version,
            holder_version: claim.holder_version,
            settle_until: (claim.phase == Phase::Settling)
                .then(|| now.boot_ms + self.rules.settle_ms),
            start_ms: claim.start_ms.max(self.used_until(claim_worker)),
            limit_ms: claim.limit_ms,
        };
        self.stage = Stage::Committing { ops: claim.ops, then: Then::Register(registered) };
    }

    fn committed(&mut self, now: Now, then: Then) {
        match then {
            Then::Register(registered) => {
                if !self.serving {
                    let worker = registered.name.sequence();
                    let why = match registered.settle_until {
                        Some(_) => format!("worker ID {worker} is new; used in a few seconds"),
                        None => format!("worker ID {worker} is claimed; checking the clock"),
                    };
                    self.stop(why, true);
                }
                self.created = None;
                if let Some(memory) = &mut self.memory
                    && memory.worker == registered.name.sequence()
                {
                    // Also when ZooKeeper does not answer from here on.
                    memory.ceiling_ms = memory.ceiling_ms.max(registered.start_ms);
                }
                self.registered = Some(registered);
            }
            Then::Settled => {
                if let Some(registered) = &mut self.registered {
                    registered.settle_until = None;
                    registered.holder_version += 1;
                }
            }
            Then::Report { limit_ms } => self.reported(now, limit_ms),
            Then::Abandoned { pause_ms } => self.pause(now, pause_ms),
        }
    }

    fn asked(&mut self, now: Now, verdict: Verdict) {
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

    fn report(&mut self, now: Now) {
        let Some(registered) = &self.registered else {
            self.stage = Stage::Looking { survey: false };
            return;
        };
        let report = registered.report(self.time_to_report(now), now, &self.rules);
        let (ops, limit_ms) = (plan::report(&self.me, &report), report.limit_ms);
        self.stage = Stage::Committing { ops, then: Then::Report { limit_ms } };
    }

    /// The host's clock, as far as use or ZooKeeper's clock bears it out: what a clock that is wrong
    /// for a while and that nobody uses leaves in the tree would have to be waited for by whoever
    /// goes on with this worker ID, this instance too.
    fn time_to_report(&self, now: Now) -> u64 {
        let zookeeper = self.zookeeper.as_ref();
        let zookeeper_ms = zookeeper.map_or(0, |it| it.now_ms(now.clock_ms, now.boot_ms));
        now.clock_ms.min(now.use_ms.max(zookeeper_ms))
    }

    /// Whether a request waits for more time than the last report allows.
    fn is_report_awaited(&self, now: Now) -> bool {
        let limit_ms = self.registered.as_ref().map_or(u64::MAX, |it| it.limit_ms);
        now.awaited_ms > 0 && now.awaited_ms.saturating_add(AWAITED_AHEAD_MS) >= limit_ms
    }

    fn reported(&mut self, now: Now, limit_ms: u64) {
        let Some(registered) = &mut self.registered else { return };
        registered.leaf_version += 1;
        registered.holder_version += 1;
        registered.limit_ms = limit_ms;
        let worker = registered.name.sequence();
        let ceiling_ms = now.ceiling_ms.max(registered.start_ms);
        self.memory = Some(Memory { worker, ceiling_ms, limit_ms, reported_boot_ms: now.boot_ms });
        self.standing = Standing::Own;
        if self.serving {
            self.effects.push(Effect::Reported { limit_ms });
        } else {
            self.serving = true;
            let start_ms = registered.start_ms;
            self.effects.push(Effect::Serve { worker, start_ms, limit_ms });
            self.effects.push(Effect::Reported { limit_ms });
        }
        self.stage = Stage::Holding { until: now.boot_ms + self.rules.report_ms };
    }

    /// What to write at the end: the last report and no live node; or, to give the worker ID back,
    /// its node among the free ones. Nothing may be issued any more. `None` without a claim.
    #[must_use]
    pub fn closing(&self, now: Now, give_back: bool) -> Option<Vec<Op>> {
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
        ops.push(Op::Delete(view::temporary(&registered.name), 0));
        Some(ops)
    }
}

#[cfg(test)]
#[path = "claimant_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod fleet_tests;

#[cfg(test)]
#[path = "rules_tests.rs"]
mod rules_tests;
