//! What hosts of a simulation do, action by action, and what becomes of their calls to the registry.

use fastrand::Rng;

use super::super::model::ModelSession;
use super::super::record::LeafRecord;
use super::super::step::{ClaimAction, ClaimOutcome};
use super::super::write::RegistryWrite;
use super::SimulatedWorld;
use crate::worker::registry::reading::look;

/// A write on its way.
pub(super) enum Call {
    Commit(Vec<RegistryWrite>),
    Create(String, LeafRecord),
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It is executed, and nobody hears of it.
    Unheard,
    /// It never arrives.
    Lost,
    /// It is executed later, after the caller has given up on it and on its session.
    Late,
}

impl SimulatedWorld {
    /// One action of one host, or the next piece of one.
    pub(crate) fn step(&mut self, at: usize, fate: Fate) {
        let now = self.now_of(at);
        if self.is_frozen(at) {
            return;
        }
        let host = &mut self.hosts[at];
        let Some(life) = &host.life else { return };
        let action = if life.reading.is_some() { None } else { Some(host.next_action(now)) };
        if matches!(action, Some(ClaimAction::Pause(_))) {
            return;
        }
        let Some(outcome) = self.outcome(at, action, fate) else { return };
        let host = &mut self.hosts[at];
        if let Some(life) = &mut host.life {
            life.reading = None;
            life.registrar.done(now, outcome);
        }
        host.obey(now);
    }

    /// Does it; `None` when it goes on.
    fn outcome(
        &mut self,
        at: usize,
        action: Option<ClaimAction>,
        fate: Fate,
    ) -> Option<ClaimOutcome> {
        let failed = |why: &str| Some(ClaimOutcome::Failed(why.to_owned()));
        let zk_now = self.zk_now();
        let fresh = self.number();
        if self.is_down || self.hosts[at].cut_off.is_some() || fate == Fate::Lost {
            return failed("cut off");
        }
        let ensemble = self.ensemble.clone();
        let host = &mut self.hosts[at];
        let life = host.life.as_mut().unwrap();
        if life.session.is_some_and(|session| ensemble.lock().unwrap().ended.contains(&session)) {
            life.session = None;
            return failed("the session has ended");
        }
        let Some(session) = life.session else {
            life.session = Some(fresh);
            return Some(ClaimOutcome::NewSession);
        };
        if let (Fate::Late, Some(action)) = (fate, &action)
            && action.is_write()
        {
            life.session = None;
            let action = action.clone();
            self.send_late(at, session, action);
            let at = self.now + self.random.u64(0..=self.rules.session_ms);
            self.ending.push((at, session));
            return failed("no answer");
        }
        let outcome = match action {
            None => life.read(false)?,
            Some(ClaimAction::Look(wanted)) => {
                let session = ModelSession::new(ensemble, session);
                let mut random = Rng::with_seed(self.random.u64(..));
                life.reading =
                    Some(Box::pin(async move { look(&session, &wanted, &mut random).await }));
                life.read(self.random.bool())?
            }
            Some(ClaimAction::Create(leaf)) => {
                let tree = &mut ensemble.lock().unwrap().tree;
                let created = tree.create_sequential(&host.identity, leaf, zk_now);
                created.map_or(ClaimOutcome::Conflict, ClaimOutcome::Created)
            }
            Some(ClaimAction::Commit(writes)) => {
                match ensemble.lock().unwrap().tree.execute(&writes, session, zk_now) {
                    true => ClaimOutcome::Committed,
                    false => ClaimOutcome::Conflict,
                }
            }
            Some(ClaimAction::AskPeers) => ClaimOutcome::Asked(self.verdict),
            Some(ClaimAction::Pause(_)) => return None,
        };
        if fate == Fate::Unheard { failed("no answer") } else { Some(outcome) }
    }
}
