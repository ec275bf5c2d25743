//! The documentation is consistent with itself and with the code.

use std::collections::{BTreeSet, HashSet};

use leaf_client::wire::ErrorCode;
use leafd::doctor::Check;
use leafd_tests::binaries::workspace;
use leafd_tests::{citations, links, literals, manual};

fn document(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let folder = workspace().canonicalize().unwrap();
    let dead = links::dead(&folder, &links::documents(&folder));
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn every_test_that_a_document_cites_is_in_the_cited_file() {
    for path in ["docs/uniqueness.md", "docs/design.md"] {
        let missing = citations::missing(workspace(), &document(path));
        assert!(missing.is_empty(), "{path}: {missing:#?}");
    }
}

#[test]
fn steps_and_assumptions_of_the_uniqueness_argument_are_numbered_without_gaps_or_duplicates() {
    let text = document("docs/uniqueness.md");
    let mut last = HashSet::new();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    for (number, _) in cells {
        let Some(kind) = ["S", "W", "Z", "D", "E", "L", "P", "A"]
            .into_iter()
            .find(|kind| number.starts_with(kind))
        else {
            continue;
        };
        let count: u32 =
            number[1..].parse().unwrap_or_else(|_| panic!("{number:?} is not a number"));
        assert!(
            count == 1 || last.contains(&(kind, count - 1)),
            "{number} does not follow the number before it"
        );
        assert!(last.insert((kind, count)), "{number} is there twice");
    }
    assert!(!last.is_empty());
}

#[test]
fn every_decision_has_a_unique_number_that_its_heading_and_links_repeat() {
    let folder = workspace().join("docs/decisions");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for (count, name) in (1..).zip(&names) {
        let number = format!("{count:03}");
        assert!(name.starts_with(&format!("{number}-")), "{name} is not number {number}");
        let text = document(&format!("docs/decisions/{name}"));
        assert!(text.starts_with(&format!("# {number}: ")), "{name} has another heading");
    }
    // The text of a link to `decisions/012-….md` must not be [011]. Another test checks that the file
    // exists.
    let root = workspace().canonicalize().unwrap();
    for path in links::documents(&root) {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        for name in &names {
            let ends =
                text.match_indices(&format!("{name})")).map(|(at, _)| at).collect::<Vec<_>>();
            for at in ends {
                let words = text[..at].rsplit_once("](").map_or("", |(words, _)| words);
                let number = words.rsplit(|char: char| !char.is_ascii_digit()).next();
                let is_number = number.is_some_and(|number| number.len() == 3);
                assert!(!is_number || number == name.get(..3), "{}: {name}", path.display());
            }
        }
    }
}

#[test]
fn no_version_of_the_changelog_has_a_heading_or_an_entry_twice() {
    let text = document("CHANGELOG.md");
    for version in text.split("\n## ").skip(1) {
        let mut seen = HashSet::new();
        for line in
            version.lines().filter(|line| line.starts_with("### ") || line.starts_with("- "))
        {
            assert!(seen.insert(line), "{line:?} is there twice");
        }
    }
}

#[test]
fn the_manual_lists_exactly_the_configuration_keys_with_their_variables_and_defaults() {
    let written = manual::keys(&document("docs/operations/configure.md"));
    let known: BTreeSet<_> = manual::keys_of_file(leafd::config::DEFAULT).into_iter().collect();
    let rows: BTreeSet<_> = written.iter().cloned().collect();
    let missing: Vec<_> = known.difference(&rows).collect();
    let wrong: Vec<_> = rows.difference(&known).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:#?}\nwrong: {wrong:#?}");
    assert_eq!(written.len(), rows.len(), "a key has two rows");
}

#[test]
fn the_runbook_lists_exactly_the_error_codes_in_order() {
    let runbook = document("docs/operations/runbook.md");
    let is_numbered = |entry: &&str| {
        let number = entry.split(' ').next().unwrap_or_default();
        number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let entries = runbook.lines().filter_map(|line| line.strip_prefix("### "));
    let entries: Vec<_> = entries.filter(is_numbered).collect();
    let all = ErrorCode::ALL.iter().map(|code| format!("{} {}", code.number(), code.name()));
    assert_eq!(entries, all.collect::<Vec<_>>());
}

#[test]
fn the_page_of_doctor_lists_every_check_and_each_check_names_a_place_in_the_manual() {
    let page = document("docs/operations/doctor.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let is_level = |name: &str| ["BAD", "WARN", "NOTE", "?", "ok"].contains(&name);
    let rows: BTreeSet<_> = rows.map(|(name, _)| name).filter(|name| !is_level(name)).collect();
    let checks: BTreeSet<_> = Check::ALL.iter().map(|check| check.name()).collect();
    assert_eq!(rows, checks);
    // A page of links beside a copy of the manual.
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().canonicalize().unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.arg("-r").arg(workspace().join("docs")).arg(&folder);
    assert!(copy.status().unwrap().success());
    let links: Vec<_> = Check::ALL.iter().map(|check| format!("[x]({})", check.page())).collect();
    std::fs::write(folder.join("links.md"), links.join("\n")).unwrap();
    let mut dead = links::dead(&folder, &links::documents(&folder));
    dead.retain(|link| link.contains("/links.md: "));
    assert!(dead.is_empty(), "{dead:#?}");
}

const ERRORS: &str = "Log lines: ERROR";
const WARNINGS: &str = "Log lines: WARN";

#[test]
fn the_runbook_lists_every_warn_and_error_line_under_its_level() {
    let runbook = document("docs/operations/runbook.md");
    let logged = literals::logged(&workspace().join("daemon/src"));
    assert!(logged.len() > 40, "only {} lines", logged.len());
    let missing = logged.iter().filter(|line| {
        let section = if line.level == "error" { ERRORS } else { WARNINGS };
        let entries = manual::entries(&runbook, section);
        // The text of a line that is only a value comes from elsewhere.
        line.text != "…" && !entries.iter().any(|entry| literals::fits(&line.text, entry))
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_line_that_the_runbook_explains_is_one_that_leafd_prints() {
    // This line is from the database library.
    let elsewhere = "slow statement: execution time exceeded alert threshold";
    let runbook = document("docs/operations/runbook.md");
    let texts = literals::texts(&workspace().join("daemon/src"));
    for section in ["Starts that fail", ERRORS, WARNINGS, "no snowflake IDs"] {
        let entries = manual::entries(&runbook, section);
        assert!(entries.len() > 5, "{section}: {entries:?}");
        let is_said = |entry: &str| {
            let part = format!("…{entry}…");
            let mut texts = texts.iter();
            texts.any(|text| literals::fits(text, &part) || literals::fits(entry, text))
        };
        let unsaid: Vec<_> =
            entries.iter().filter(|entry| **entry != elsewhere && !is_said(entry)).collect();
        assert!(unsaid.is_empty(), "{section}: {unsaid:#?}");
    }
}
