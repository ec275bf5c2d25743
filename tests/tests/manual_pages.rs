//! The manual pages and completions as the package gets them: every command has a page, and man renders
//! each without a complaint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use clap::CommandFactory;
use leafd::cli::{leafctl, leafd as daemon};
use leafd_tests::binaries::example;
use tempfile::TempDir;

/// The folder into which `examples/manual` writes.
static MANUAL: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(example("manual")).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    folder
});

fn pages() -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(MANUAL.path().join("man")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// The page as text on a wide terminal, and what man has to complain about. These are the options with
/// which lintian checks pages.
fn rendered(page: &Path) -> (String, String) {
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(page);
    // Not `MAN_KEEP_FORMATTING`: without a terminal, the text is plain.
    let output = man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "100");
    let output = output.output().expect("man: install man-db");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The file names of the pages of a command and of all below it.
fn expected(command: &clap::Command, before: &str, section: &str, found: &mut BTreeSet<String>) {
    let name = format!("{before}{}", command.get_name());
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        expected(inner, &format!("{name}-"), section, found);
    }
    found.insert(format!("{name}.{section}"));
}

#[test]
fn every_command_has_a_page_that_man_renders_without_a_warning() {
    let pages = pages();
    let mut names = BTreeSet::from(["leafd.toml.5".to_owned()]);
    expected(&leafctl::Cli::command(), "", "1", &mut names);
    expected(&daemon::Arguments::command(), "", "8", &mut names);
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), names);
    for (name, page) in &pages {
        let (text, warnings) = rendered(page);
        assert_eq!(warnings, "", "{name}");
        assert!(text.contains("NAME\n"), "{name}: {text}");
    }
}

#[test]
fn every_page_of_a_command_has_examples_files_an_exit_status_and_where_to_read_on() {
    for (name, page) in pages() {
        let (text, _) = rendered(&page);
        let headings: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_uppercase()))
            .collect();
        let mut wanted = vec!["NAME"];
        if name != "leafd.toml.5" {
            wanted.extend(["SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "FILES", "EXAMPLES"]);
        }
        wanted.push("SEE ALSO");
        let mut left = headings.iter();
        for heading in wanted {
            let is_there = left.by_ref().any(|line| *line == heading);
            assert!(is_there, "{name} has no {heading}, or not in its place: {headings:?}");
        }
    }
}

#[test]
fn a_page_refers_only_to_pages_that_exist() {
    let pages = pages();
    for (name, page) in &pages {
        let (text, _) = rendered(page);
        let see_also = text.split("SEE ALSO\n").nth(1).expect("a section");
        let see_also = see_also.split("\n\n").next().unwrap_or_default();
        let references: Vec<_> =
            see_also.split(',').map(str::trim).filter(|word| word.ends_with(')')).collect();
        assert!(!references.is_empty(), "{name}: {see_also}");
        for reference in references {
            let file = reference.trim_end_matches(')').replace('(', ".");
            assert!(pages.contains_key(&file), "{name} refers to {reference}");
            assert_ne!(&file, name, "{name} refers to itself");
        }
    }
}

#[test]
fn the_package_gets_a_completion_script_of_both_programs_for_each_shell() {
    for (file, text) in [
        ("bash/leafd.bash", "_leafd()"),
        ("bash/leafctl.bash", "LEAFCTL_COMPLETE"),
        ("zsh/_leafd", "#compdef leafd"),
        ("zsh/_leafctl", "#compdef leafctl"),
        ("fish/leafd.fish", "complete -c leafd"),
        ("fish/leafctl.fish", "complete --keep-order --exclusive --command leafctl"),
    ] {
        let script = std::fs::read_to_string(MANUAL.path().join(file)).unwrap();
        assert!(script.contains(text), "{file}: {script}");
    }
}
