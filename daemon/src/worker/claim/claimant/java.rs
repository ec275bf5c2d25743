//! The claim where a Java Leaf may run at the same address. Java Leaf asks nobody and writes the node of
//! its address. So: which nodes count as a Java Leaf's, when leafd may take one over, and what has to
//! outlast this life.

use super::super::instance::RegistryWords;
use super::super::plan;
use super::super::quiet::Quiet;
use super::super::step::{ClaimEffect, Moment};
use super::super::view::{RegistryView, WorkerEntry};
use super::Claimant;
use crate::state::worker_file::Standing;

/// Why a worker ID that was handed back is not used.
const HANDED_BACK: &str = "the node of this instance was handed back to Java Leaf (leafd hand-back). \
     To use its worker ID again, keep Java Leaf stopped, stop leafd, run `leafd hand-back --undo`, \
     and start leafd";

/// Why an instance does not go on in an outage as it would otherwise.
pub(super) fn in_doubt(registry: &str) -> String {
    format!(
        "the node of this instance was not as leafd had left it, and {registry} went away before it \
         could be read: a Java Leaf with the same address? IDs go on when {registry} answers"
    )
}

impl Claimant {
    /// How long a node of this identity has been quiet.
    pub(super) fn quiet(&mut self, now: Moment, view: &RegistryView, entry: &WorkerEntry) -> Quiet {
        let times = (self.look_began, now.boot_ms);
        self.watch.see(view.vantage, times, &entry.name, entry.stamp())
    }

    /// Something that is not a leafd writes a node of this identity. The worker file keeps that, unless
    /// it knows of no worker ID: then no life issues on its word anyway.
    pub(super) fn contest(&mut self, why: &str) {
        let is_kept = self.memory.is_some() || self.standing == Standing::HandedBack;
        if is_kept && self.standing != Standing::Contested {
            self.standing = Standing::Contested;
            if let Some(memory) = &mut self.memory {
                memory.limit_ms = 0;
            }
            self.serving = false;
            self.effects.push(ClaimEffect::Contested { why: why.to_owned() });
        }
    }

    /// Why leafd claims nothing after a hand-back to Java Leaf. As long as Java Leaf has not written a
    /// node of this identity since, it may do so at any moment, and make one where there is none.
    pub(super) fn waits_for_java(&self, view: &RegistryView) -> Option<String> {
        let has_begun = plan::java_leafs(&self.me, view).next().is_some();
        (self.standing == Standing::HandedBack && !has_begun).then(|| HANDED_BACK.to_owned())
    }

    /// Why nothing of this identity may be used: a Java Leaf may be using another node of it.
    pub(super) fn beside_java(&mut self, now: Moment, view: &RegistryView) -> Option<String> {
        let javas: Vec<_> = plan::java_leafs(&self.me, view).collect();
        let mut why = None;
        // All of them, so that the watch over each begins as early as it can.
        for entry in javas {
            let quiet = self.quiet(now, view, entry);
            if !quiet.is_enough() {
                why = why.or_else(|| Some(writes(entry, quiet)));
            }
        }
        why
    }

    /// Waits for a Java Leaf of this identity to end, or takes over the node that it has left. Returns
    /// whether there is one.
    pub(super) fn joins_java(&mut self, now: Moment, view: &RegistryView) -> bool {
        if let Some(why) = self.beside_java(now, view) {
            self.contest(&why);
            self.bar(now, why, false, 1000);
            return true;
        }
        match plan::join(&self.me, view) {
            Ok(None) => return false,
            Ok(Some(claim)) => self.claim(now, claim),
            Err(why) => self.bar(now, why, false, 5000),
        }
        true
    }
}

/// Why a node of this identity is not taken over yet.
fn writes(entry: &WorkerEntry, quiet: Quiet) -> String {
    if !quiet.was_written {
        return watching(entry, quiet);
    }
    format!(
        "the node {} is being written by something that is not a leafd: a Java Leaf with this \
         address? Stop it, or give this instance a worker.identity",
        entry.name
    )
}

/// Why this instance's own node is not used. `serving`: IDs were being issued until now.
pub(super) fn writes_ours(entry: &WorkerEntry, quiet: Quiet, serving: bool) -> String {
    if !quiet.was_written && !serving {
        return watching(entry, quiet);
    }
    format!(
        "something that is not a leafd writes the node {} of this instance: a Java Leaf with the \
         same address? Stop it, or give this instance a worker.identity",
        entry.name
    )
}

fn watching(entry: &WorkerEntry, quiet: Quiet) -> String {
    format!(
        "something that is not a leafd wrote the node {} last: a Java Leaf with this address? leafd \
         takes over when nothing has written the node for {} s more; if the Java Leaf still runs, \
         stop it, or give this instance a worker.identity",
        entry.name,
        quiet.left_ms().div_ceil(1000)
    )
}

/// Why there are no IDs while the registry cannot be reached and the worker file does not allow any.
pub(super) fn without_registry(standing: Standing, words: &RegistryWords) -> String {
    match standing {
        Standing::Own => words.no_worker_id.to_owned(),
        Standing::Contested => format!(
            "something that is not a leafd wrote the node of this instance when it was seen last, \
             so its worker ID is not used before {} can be reached",
            words.name
        ),
        Standing::HandedBack => HANDED_BACK.to_owned(),
    }
}
