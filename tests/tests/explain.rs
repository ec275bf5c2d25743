//! `leafctl explain` finds the runbook's entry of everything that leafd can say about trouble.

use std::collections::BTreeSet;

use leaf_client::wire::ErrorCode;
use leafd_tests::binaries::workspace;
use leafd_tests::daemon::Home;
use leafd_tests::{literals, manual};
use serde_json::Value;

fn explain(words: &[&str]) -> (Option<i32>, String, String) {
    // No leafd runs there: the runbook is in leafctl.
    let folder = tempfile::tempdir().unwrap();
    Home::new(folder.path()).run("leafctl", &[&["explain"], words].concat())
}

/// The sections and headings of the entries for `words`, the best first.
fn entries(words: &str) -> Vec<(String, String)> {
    let (code, out, errors) = explain(&["--json", "--", words]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{words}");
    let entries: Vec<Value> = serde_json::from_str(&out).unwrap();
    let text = |entry: &Value, field| entry[field].as_str().unwrap().to_owned();
    entries.iter().map(|entry| (text(entry, "section"), text(entry, "heading"))).collect()
}

#[test]
fn the_number_and_the_name_of_every_error_print_its_entry() {
    for code in ErrorCode::ALL {
        let heading = code.to_string();
        for words in [&code.number().to_string(), code.name(), &heading] {
            let (exit, out, errors) = explain(&[words]);
            assert_eq!((exit, errors.as_str()), (Some(0), ""));
            assert!(out.starts_with(&format!("{heading}\n    ")), "{words}: {out}");
        }
    }
    let (_, out, _) = explain(&["--json", "302"]);
    let entry: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&entry[0]["code"], &entry[0]["name"]), (&302.into(), &"StoreUnavailable".into()));
}

#[test]
fn every_warn_and_error_line_of_leafd_finds_its_own_entry_first() {
    let runbook = std::fs::read_to_string(workspace().join("docs/operations/runbook.md")).unwrap();
    let logged = literals::logged(&workspace().join("daemon/src"));
    // A line that is only a value has its text from elsewhere.
    let lines = logged.iter().filter(|line| line.text != "…");
    let mut count = 0;
    for line in lines {
        let level = line.level.to_uppercase();
        let section = format!("Log lines: {level}");
        let own = manual::entries(&runbook, &section);
        let own: BTreeSet<_> =
            own.into_iter().filter(|entry| literals::fits(&line.text, entry)).collect();
        let message = line.text.replace('…', "a value of 7");
        let pasted = format!("2026-11-23T15:30:00.123456Z {level:>5} {message} tag=\"orders\"");
        for words in [&message, &pasted] {
            let found = entries(words);
            let is_own =
                |(at, heading): &(String, String)| *at == section && own.contains(heading.as_str());
            let place = found.iter().take(3).position(is_own);
            assert!(place.is_some(), "{words}: {found:#?}");
        }
        count += 1;
    }
    assert!(count > 40, "only {count} lines");
}

/// The files that say why there are no snowflake IDs.
const REASONS: [&str; 11] = [
    "snowflake/refusal.rs",
    "worker/registry/fixed.rs",
    "worker/registry/database/words.rs",
    "worker/registry/etcd/words.rs",
    "worker/registry/zookeeper/words.rs",
    "worker/claim/claimant.rs",
    "worker/claim/claimant/java.rs",
    "worker/claim/claimant/looking.rs",
    "worker/claim/claimant/reporting.rs",
    "worker/claim/plan/finding.rs",
    "worker/claim/registrar.rs",
];

/// Texts in these files that are only part of a reason, or of something else.
const OTHERS: [&str; 18] = [
    // A request got fewer IDs than it asked for: 308.
    "could not make that many IDs in time: the layout's limit is reached",
    // Follows "the worker file cannot be written: ".
    "the disk has not answered yet",
    // In the middle of a sentence.
    "zookeeper.name to a tree of its own",
    "database.name to a fleet of its own",
    "this fleet of the registry's database",
    "the record \"leafd\" in the table leafd_worker",
    "etcd.name to a fleet of its own",
    "this fleet of etcd",
    "the key /leafd/NAME/leafd in etcd",
    "it has a Unix socket",
    // Log lines, which another test looks for.
    "worker ID from the worker file, ZooKeeper does not answer; other instances' clocks are not \
     asked",
    "worker ID from the worker file, the registry's database does not answer; other instances' clocks \
     are not asked",
    "worker ID from the worker file, etcd does not answer; other instances' clocks are not asked",
    "ZooKeeper was not told of the end: …",
    "the registry's database was not told of the end: …",
    "etcd was not told of the end: …",
    "…: …",
    // A reason for having no worker ID to lend.
    "… is for …, and lend.pools says …: a library that cuts a number off would use another one's. \
     Change lend.pools, or use a pool with another name",
];

#[test]
fn every_reason_for_having_no_snowflake_ids_finds_an_entry_about_it() {
    let mut count = 0;
    for file in REASONS {
        for text in literals::texts_of(&workspace().join("daemon/src").join(file)) {
            let words = text.split_whitespace().filter(|word| word.len() > 1).count();
            // What follows a reason that comes from elsewhere is a sentence of its own.
            if words < 4 || text.starts_with("…. ") || OTHERS.contains(&text.as_str()) {
                continue;
            }
            let reason = text.replace('…', "the node 7");
            let line = format!("no snowflake IDs: {reason} error=305 WorkerUnavailable");
            let found = entries(&line);
            let is_about = |(section, _): &(String, String)| section == "no snowflake IDs";
            assert!(found.iter().take(3).any(is_about), "{file}: {text:?}: {found:#?}");
            count += 1;
        }
    }
    assert!(count > 20, "only {count} reasons");
}

#[test]
fn a_line_may_be_pasted_without_quotes_and_everything_can_be_listed() {
    let (code, out, _) = explain(&["cannot", "remove", "the", "socket:"]);
    assert_eq!(code, Some(0));
    assert_eq!(out, "cannot remove the socket: …\n    At a stop. Check the directory's rights.\n");
    let (code, list, errors) = explain(&[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    for status in ["1", "64", "69", "74", "76", "78"] {
        assert_eq!(explain(&[status]).0, Some(0), "{status}");
    }
    for line in ["Exit codes", "  78/CONFIG", "  302 StoreUnavailable", "Words of ZooKeeper"] {
        assert!(list.lines().any(|have| have == line), "{line} is not in:\n{list}");
    }
    let (_, all, _) = explain(&["--json"]);
    let all: Vec<Value> = serde_json::from_str(&all).unwrap();
    assert!(all.len() > 100 && all.iter().all(|entry| entry["text"].is_string()), "{all:?}");
}

#[test]
fn an_unknown_word_is_wrong_usage_and_its_neighbours_are_named() {
    let (code, out, errors) = explain(&["StorUnavailable"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("\"StorUnavailable\""), "{errors}");
    assert!(errors.contains("\n  302 StoreUnavailable\n"), "{errors}");
    let (code, _, errors) = explain(&["999"]);
    assert_eq!(code, Some(64));
    assert!(errors.contains("no entry for \"999\""), "{errors}");
}
