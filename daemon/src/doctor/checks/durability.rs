//! Whether the database can lose leases that it has committed: by a crash, or by a failover.

use crate::doctor::facts::{Facts, Seen};
use crate::doctor::finding::{Check, Finding};
use crate::store::StoreFacts;
use crate::store::inspection::{LooseSetting, ReplicationFacts};

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    let Seen::As(store) = &facts.store else { return };
    crash(store, out);
    failover(store, out);
}

fn crash(store: &StoreFacts, out: &mut Vec<Finding>) {
    let check = Check::Durability;
    for LooseSetting { is, should_be, loses_leases } in &store.loose {
        let finding = if *loses_leases {
            Finding::bad(check, format!("a crash of the server loses leases: {is}"))
                .because("Another host then leases the same ranges, and IDs come twice.")
        } else {
            Finding::warn(check, format!("a crash can leave replicas behind: {is}")).because(
                "A replica that takes over then repeats the last leases, and IDs come twice.",
            )
        };
        out.push(finding.remedy(format!("Set {should_be} on the server.")));
    }
    if store.loose.is_empty() {
        out.push(Finding::ok(check, "the server writes each commit to disk"));
    }
}

fn failover(store: &StoreFacts, out: &mut Vec<Finding>) {
    let check = Check::Replication;
    let waits_with = store.waits_with;
    out.push(match store.replication {
        ReplicationFacts::Alone => Finding::ok(check, "nothing replicates from the server now"),
        ReplicationFacts::Waits(count) => {
            Finding::ok(check, format!("commits wait for a replica ({count} attached)"))
        }
        ReplicationFacts::Behind(count) => Finding::warn(
            check,
            format!("a failover loses leases: no commit waits for a replica ({count})"),
        )
        .because("A replica that takes over repeats the last leases, and IDs come twice.")
        .remedy(format!(
            "Set {waits_with}; or after each failover move every row forward by a margin."
        )),
        ReplicationFacts::Unseen => Finding::note(check, "commits do not wait for a replica")
            .because("Whether there are replicas cannot be seen with leafd's rights.")
            .remedy(format!("If there are, set {waits_with}.")),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use crate::doctor::checks::sample::{healthy, of, store};

    #[test]
    fn settings_that_lose_leases_in_a_crash_are_bad() {
        for (loses_leases, level) in [(true, Level::Bad), (false, Level::Warn)] {
            let mut facts = healthy();
            store(&mut facts).loose = vec![LooseSetting {
                is: "fsync = off".to_owned(),
                should_be: "fsync = on",
                loses_leases,
            }];
            let found = of(&facts, Check::Durability);
            assert_eq!(found.level, level);
            assert!(found.title.contains("fsync = off") && found.remedy.contains("fsync = on"));
        }
    }

    #[test]
    fn replicas_that_no_commit_waits_for_are_a_warning() {
        for (replication, level) in [
            (ReplicationFacts::Alone, Level::Ok),
            (ReplicationFacts::Waits(2), Level::Ok),
            (ReplicationFacts::Behind(2), Level::Warn),
            (ReplicationFacts::Unseen, Level::Note),
        ] {
            let mut facts = healthy();
            store(&mut facts).replication = replication;
            assert_eq!(of(&facts, Check::Replication).level, level, "{replication:?}");
        }
    }
}
