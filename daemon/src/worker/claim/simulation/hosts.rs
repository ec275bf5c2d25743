//! What stands in a simulation for registrar, issuer and worker file.

use super::super::claimant::Claimant;
use super::super::model::Reading;
use super::super::step::Effect;
use crate::snowflake::last_use::LastUse;
use crate::state::worker_file::Standing;

/// The worker file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    pub(crate) worker: Option<u64>,
    pub(crate) ceiling_ms: u64,
    pub(crate) limit_ms: u64,
    /// In which boot, and how long after it.
    pub(crate) reported: Option<(u64, u64)>,
    pub(crate) nonces: Vec<String>,
    pub(crate) standing: Standing,
}

/// What the sequencer knows.
#[derive(Debug)]
pub(crate) struct Issuing {
    pub(crate) worker: u64,
    pub(crate) next: u64,
    pub(crate) ceiling_ms: u64,
    pub(crate) limit_ms: u64,
    pub(crate) last_use: LastUse,
    /// A request waits for a report.
    pub(crate) is_awaited: bool,
}

/// One life of one instance.
pub(crate) struct Life {
    pub(crate) claimant: Claimant,
    pub(crate) nonce: String,
    pub(crate) issuing: Option<Issuing>,
    /// What the next write of the worker file says.
    pub(crate) file: Disk,
    pub(crate) has_begun: bool,
    pub(crate) session: Option<u64>,
    pub(crate) reading: Option<Reading>,
    pub(crate) why: String,
}

pub(crate) struct Host {
    pub(crate) identity: String,
    pub(crate) disk: Disk,
    pub(crate) life: Option<Life>,
    /// How far its clock is ahead.
    pub(crate) offset: i64,
    /// Since when it does not reach the tree.
    pub(crate) cut_off: Option<u64>,
    /// It does nothing before this, and does not know.
    pub(crate) frozen_until: u64,
    pub(crate) booted_at: u64,
}

impl Host {
    pub(crate) fn leave_name(&mut self) {
        let Some(life) = &mut self.life else { return };
        if life.file.nonces.first() != Some(&life.nonce) {
            life.file.nonces.insert(0, life.nonce.clone());
            life.file.nonces.truncate(8);
            self.disk = life.file.clone();
            let in_use = life.issuing.as_ref().map_or(0, |issuing| issuing.ceiling_ms);
            self.disk.ceiling_ms = self.disk.ceiling_ms.max(in_use);
        }
    }

    /// What the registrar does with the effects.
    pub(crate) fn take_effects(&mut self, now: u64) {
        let booted_at = self.booted_at;
        let Some(life) = &mut self.life else { return };
        for effect in life.claimant.effects() {
            match effect {
                Effect::Serve { worker, start_ms, limit_ms } => {
                    let used =
                        if life.file.worker == Some(worker) { life.file.ceiling_ms } else { 0 };
                    let next = start_ms.max(used);
                    assert!(life.issuing.is_none(), "begins while it issues");
                    life.issuing = Some(Issuing {
                        worker,
                        next,
                        ceiling_ms: next,
                        limit_ms,
                        last_use: LastUse { clock_ms: next, boot_ms: now - booted_at },
                        is_awaited: false,
                    });
                    life.has_begun = true;
                    (life.file.worker, life.file.ceiling_ms) = (Some(worker), next);
                    (life.file.limit_ms, life.file.standing) = (limit_ms, Standing::Own);
                }
                Effect::Reported { limit_ms } => {
                    if let Some(issuing) = &mut life.issuing {
                        issuing.limit_ms = limit_ms;
                    }
                    life.file.limit_ms = limit_ms;
                    life.file.reported = Some((booted_at, now - booted_at));
                }
                Effect::Stop { why, .. } => {
                    suspend(life);
                    life.why = why;
                }
                Effect::Lost => {
                    suspend(life);
                    life.file.limit_ms = 0;
                    self.disk = life.file.clone();
                }
                Effect::Contested { why } => {
                    suspend(life);
                    (life.file.limit_ms, life.file.standing) = (0, Standing::Contested);
                    self.disk = life.file.clone();
                    life.why = why;
                }
                Effect::Trouble(_) | Effect::Fine => {}
            }
        }
    }

    /// One ID, if it may, at what its clock says: worker ID and time.
    pub(crate) fn issue(&mut self, clock: u64, now: u64, ahead: u64) -> Option<(u64, u64)> {
        let boot_ms = now - self.booted_at;
        let life = self.life.as_mut()?;
        let issuing = life.issuing.as_mut()?;
        // A sequencer leads its clock by a little at most, and refuses behind it.
        let time = clock.max(issuing.next);
        issuing.is_awaited = time <= clock + 10 && time >= issuing.limit_ms;
        if time > clock + 10 || issuing.is_awaited {
            return None;
        }
        if time >= issuing.ceiling_ms {
            // On disk before it is used.
            issuing.ceiling_ms = (time + ahead).min(issuing.limit_ms);
            self.disk = life.file.clone();
            self.disk.ceiling_ms = issuing.ceiling_ms;
        }
        issuing.next = time + 1;
        issuing.last_use = LastUse { clock_ms: clock, boot_ms };
        Some((issuing.worker, time))
    }
}

fn suspend(life: &mut Life) {
    if let Some(issuing) = life.issuing.take() {
        life.file.ceiling_ms = issuing.ceiling_ms;
    }
}
