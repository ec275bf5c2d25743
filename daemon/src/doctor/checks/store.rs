//! The store: whether it answers, and whether its tables, columns and rights are as leafd needs them.

use crate::doctor::facts::{Facts, Seen};
use crate::doctor::finding::{Check, Finding};
use crate::store::StoreFacts;
use crate::store::inspection::{OwnTable, RightUse, narrow};

/// The longest tag.
const TAG_CHARS: u64 = 128;

/// From this share of a column on, in percent, the end is near.
const NEARLY: u64 = 80;

pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    reachable(facts, out);
    databases(&facts.databases, out);
    let Seen::As(store) = &facts.store else { return };
    if !store.has_tags {
        return;
    }
    rights(store, out);
    tables(store, out);
    columns(&store.columns, out);
}

/// Each of several databases. Any one that works is enough.
fn databases(databases: &[(String, Result<String, String>)], out: &mut Vec<Finding>) {
    let check = Check::Store;
    let works = databases.iter().any(|(_, seen)| seen.is_ok());
    for (described, seen) in databases {
        out.push(match seen {
            Ok(share) => Finding::ok(check, format!("{described} has {share}")),
            Err(why) => {
                let title = "one of the store's databases cannot be used";
                let finding =
                    if works { Finding::warn(check, title) } else { Finding::bad(check, title) };
                finding.because(format!("{described}: {why}")).remedy(
                    "See docs/operations/several.md: repair it, or retire it with `leafd division \
                     close`.",
                )
            }
        });
    }
}

fn reachable(facts: &Facts, out: &mut Vec<Finding>) {
    let check = Check::Store;
    let fails = facts.status().map(|status| status.segments.store_error.as_str());
    let fails = fails.filter(|error| !error.is_empty());
    if let Some(error) = fails {
        out.push(
            Finding::bad(check, "leafd cannot lease from the store")
                .because(format!("{error}. leafd serves what it has in memory."))
                .remedy(
                    "Bring the store back; leafd goes on by itself. The runbook explains the text.",
                ),
        );
    }
    let remedy = "See that the server runs, and store.url, the password and the network to it.";
    match &facts.store {
        Seen::As(store) => {
            let server = &store.server;
            if let Some(read_only) = &store.read_only {
                out.push(
                    Finding::bad(check, "the store takes no writes")
                        .because(format!("{server}: {read_only}. Every lease fails."))
                        .remedy("Point store.url at the primary."),
                );
            } else if !store.has_tags {
                out.push(
                    Finding::bad(check, "the store has no table leaf_alloc")
                        .because(format!("{server}, or leafd's user has no right to it."))
                        .remedy("Create the tables with `leafd schema`, and grant the rights."),
                );
            } else if fails.is_none() {
                out.push(Finding::ok(check, format!("{server} answers")));
            }
        }
        Seen::Not(_) if fails.is_some() => {}
        // The daemon may have what this user lacks, such as systemd's credentials.
        Seen::Not(why) if facts.status().is_some() => out.push(
            Finding::unknown(check, "doctor does not reach the store; leafd has seen no failure")
                .because(format!("{why}. leafd asks the store only when it needs something."))
                .remedy(
                    "Run this with leafd's password, as in LEAFD_STORE_PASSWORD=… leafctl doctor, and \
                     from leafd's network. If it fails there, too, bring the store back.",
                ),
        ),
        Seen::Not(why) => {
            out.push(Finding::bad(check, "cannot read the store").because(why.as_str()).remedy(remedy));
        }
        Seen::Nothing if fails.is_none() => match facts.has_shared_store() {
            Some(false) => out.push(Finding::ok(check, "the store is embedded")),
            // Each one has a finding of its own.
            _ if !facts.databases.is_empty() => {}
            _ => out.push(
                Finding::unknown(check, "cannot look at the store")
                    .because("The configuration that names it cannot be read."),
            ),
        },
        Seen::Nothing => {}
    }
}

fn rights(store: &StoreFacts, out: &mut Vec<Finding>) {
    let check = Check::Rights;
    let lacking = |needed_for: RightUse| -> Vec<&str> {
        let rights = store.missing_rights.iter().filter(|right| right.needed_for == needed_for);
        rights.map(|right| right.right).collect()
    };
    let before = out.len();
    for (needed_for, title) in [
        (RightUse::Lease, "leafd's user may not lease"),
        (RightUse::Identity, "leafd would not notice another database"),
        (RightUse::Create, "leafd's user may not create tags"),
        (RightUse::Delete, "leafd's user may not delete tags"),
    ] {
        let lacking = lacking(needed_for);
        if lacking.is_empty() {
            continue;
        }
        let finding = match needed_for {
            RightUse::Lease => Finding::bad(check, title),
            RightUse::Identity => Finding::warn(check, title),
            // An operator may want it so.
            RightUse::Create | RightUse::Delete => Finding::note(check, title),
        };
        let rights = lacking.join(", ");
        out.push(
            finding.because(format!("It lacks {rights}.")).remedy(format!("GRANT {rights} …")),
        );
    }
    if out.len() == before {
        out.push(Finding::ok(check, "leafd's user has every right that it needs"));
    }
}

fn tables(store: &StoreFacts, out: &mut Vec<Finding>) {
    let check = Check::Tables;
    let before = out.len();
    if store.tombstones == OwnTable::Missing {
        out.push(
            Finding::warn(check, "the store has no table leafd_tombstone")
                .because(
                    "Nobody remembers where a deleted tag ended: `tag delete` is refused, and a tag that \
                     is deleted by SQL and made again repeats its IDs.",
                )
                .remedy("Run `leafd schema` on the database, and grant the rights."),
        );
    }
    if store.identity != OwnTable::There {
        let title = match store.identity {
            OwnTable::Empty => "leafd_identity has no row",
            _ => "the store has no table leafd_identity",
        };
        out.push(
            Finding::warn(check, title)
                .because(
                    "leafd would not notice another database, or an old copy, at this address.",
                )
                .remedy("Run `leafd schema` on the database, and grant SELECT on leafd_identity."),
        );
    }
    if out.len() == before {
        out.push(Finding::ok(check, "leafd's tables are there"));
    }
}

fn columns(columns: &crate::store::inspection::ColumnFacts, out: &mut Vec<Finding>) {
    let check = Check::Columns;
    let before = out.len();
    let alter = "ALTER TABLE leaf_alloc MODIFY max_id bigint NOT NULL DEFAULT 1 (PostgreSQL: ALTER \
                 max_id TYPE bigint), and the applications' columns.";
    if let Some(most) = narrow(&columns.max_id) {
        let highest = columns.highest.unwrap_or(0);
        let is_near = highest >= most / 100 * NEARLY;
        let title = format!("max_id is {}, and IDs are 64-bit numbers", columns.max_id);
        let detail = format!("It ends at {most}; the highest tag is at {highest}.");
        let finding = match is_near {
            true => Finding::bad(check, format!("max_id is {} and nearly full", columns.max_id)),
            false => Finding::warn(check, title),
        };
        out.push(finding.because(detail).remedy(alter));
    }
    if !columns.is_unique {
        out.push(
            Finding::bad(check, "biz_tag is no key of its own in leaf_alloc")
                .because("Two rows of one tag are possible, and two hosts may lease the same range.")
                .remedy("Remove doubled rows (keep the highest max_id), then make biz_tag the primary key."),
        );
    }
    if !columns.unsafe_table.is_empty() {
        out.push(
            Finding::bad(check, "leaf_alloc is no table that keeps what is committed")
                .because(format!("It is {}.", columns.unsafe_table))
                .remedy("MySQL: ALTER TABLE leaf_alloc ENGINE=InnoDB. PostgreSQL: SET LOGGED."),
        );
    }
    if let Some(chars) = columns.tag_chars.filter(|chars| *chars < TAG_CHARS) {
        out.push(
            Finding::note(check, format!("biz_tag holds {chars} characters"))
                .because(format!("leafd's tags have up to {TAG_CHARS}; longer ones are unknown."))
                .remedy("Widen it to varchar(128), if applications use longer names."),
        );
    }
    if out.len() == before {
        out.push(Finding::ok(check, "the columns of leaf_alloc are wide enough"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::sample::{healthy, of, running, store};
    use crate::doctor::{DaemonFacts, Level, examine};
    use crate::store::inspection::MissingRight;

    #[test]
    fn one_of_several_databases_that_fails_is_a_warning_as_long_as_another_works() {
        let mut facts = healthy();
        let found = |facts: &Facts| {
            let found = examine(facts).into_iter().filter(|finding| finding.check == Check::Store);
            found.map(|finding| finding.level).collect::<Vec<_>>()
        };
        let fails = ("b".to_owned(), Err("Connection refused".to_owned()));
        facts.databases = vec![("a".to_owned(), Ok("share 1 of 8".to_owned())), fails.clone()];
        let levels = found(&facts);
        assert!(levels.contains(&Level::Warn) && !levels.contains(&Level::Bad), "{levels:?}");
        facts.databases = vec![fails.clone(), fails];
        assert!(found(&facts).contains(&Level::Bad));
    }

    #[test]
    fn a_store_that_fails_is_bad_and_one_that_only_doctor_misses_unknown() {
        let mut facts = healthy();
        facts.store = Seen::Not("Access denied".to_owned());
        let found = of(&facts, Check::Store);
        assert_eq!(found.level, Level::Unknown);
        assert!(!found.title.contains("leafd reaches"), "{found:?}");
        running(&mut facts).segments.store_error = "Connection refused".to_owned();
        let found = of(&facts, Check::Store);
        assert!(found.level == Level::Bad && found.detail.contains("refused"), "{found:?}");
        facts.daemon = DaemonFacts::Down(String::new());
        let found = of(&facts, Check::Store);
        assert!(found.level == Level::Bad && found.detail.contains("denied"), "{found:?}");
        facts.configuration = crate::doctor::facts::ConfigurationFacts::Unreadable(String::new());
        facts.store = Seen::Nothing;
        assert_eq!(of(&facts, Check::Store).level, Level::Unknown);
    }

    #[test]
    fn a_server_that_takes_no_leases_is_bad() {
        let mut facts = healthy();
        store(&mut facts).read_only = Some("read_only = ON".to_owned());
        assert!(of(&facts, Check::Store).detail.contains("read_only = ON"));
        store(&mut facts).read_only = None;
        store(&mut facts).has_tags = false;
        assert!(of(&facts, Check::Store).title.contains("no table leaf_alloc"));
    }

    #[test]
    fn each_missing_right_is_as_bad_as_what_needs_it() {
        for (right, needed_for, level) in [
            ("UPDATE on leaf_alloc", RightUse::Lease, Level::Bad),
            ("SELECT on leafd_identity", RightUse::Identity, Level::Warn),
            ("INSERT on leaf_alloc", RightUse::Create, Level::Note),
            ("DELETE on leaf_alloc", RightUse::Delete, Level::Note),
        ] {
            let mut facts = healthy();
            store(&mut facts).missing_rights = vec![MissingRight { right, needed_for }];
            let found = of(&facts, Check::Rights);
            assert_eq!(found.level, level);
            assert!(found.remedy.contains(right), "{}", found.remedy);
        }
    }

    #[test]
    fn a_missing_table_of_leafds_own_is_a_warning() {
        let mut facts = healthy();
        store(&mut facts).tombstones = OwnTable::Missing;
        assert!(of(&facts, Check::Tables).title.contains("leafd_tombstone"));
        for (identity, title) in
            [(OwnTable::Missing, "no table leafd_identity"), (OwnTable::Empty, "has no row")]
        {
            let mut facts = healthy();
            store(&mut facts).identity = identity;
            let found = of(&facts, Check::Tables);
            assert!(found.level == Level::Warn && found.title.contains(title), "{found:?}");
        }
    }

    #[test]
    fn columns_that_are_too_small_are_found_before_they_are_full() {
        let mut facts = healthy();
        store(&mut facts).columns.max_id = "int(11)".to_owned();
        store(&mut facts).columns.highest = Some(1_000_000);
        assert_eq!(of(&facts, Check::Columns).level, Level::Warn);
        store(&mut facts).columns.highest = Some(1_717_986_880);
        assert_eq!(of(&facts, Check::Columns).level, Level::Bad);
        let mut facts = healthy();
        store(&mut facts).columns.tag_chars = Some(64);
        assert_eq!(of(&facts, Check::Columns).level, Level::Note);
        store(&mut facts).columns.is_unique = false;
        store(&mut facts).columns.unsafe_table = "ENGINE=MyISAM".to_owned();
        let bad = examine(&facts).into_iter().filter(|finding| finding.level == Level::Bad);
        assert_eq!(bad.count(), 2);
    }
}
