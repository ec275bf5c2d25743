//! A language: how its package is built and its driver started, and what its test program checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::driver::{About, Driver};
use super::scenario::{Group, Outcome};
use super::scenarios::GROUPS;
use super::stage::Stage;
use super::table::{Table, Written};
use crate::binaries::{without_settings, workspace};
use crate::daemon::Home;

/// Plays only the scenarios whose names contain this, and leaves the table alone.
const ONLY: &str = "LEAF_TESTS_SCENARIO";

/// Set to anything but nothing, it writes the outcomes into the table.
const WRITE: &str = "LEAF_TESTS_WRITE";

/// Plays with this driver, and builds no package.
const DRIVER: &str = "LEAF_TESTS_DRIVER";

/// A client in one mode: a column of the table.
#[derive(Debug)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// The mode, for the driver.
    pub mode: &'static str,
    driver: PathBuf,
}

impl Column {
    /// A command that starts its driver.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.driver);
        without_settings(&mut command);
        command.arg(self.mode);
        command
    }

    fn start(&self) -> (Driver, About) {
        let mut driver = Driver::start(self.command());
        let about = driver.about();
        (driver, about)
    }
}

/// A language with its modes: the heading of the column, and the argument of the driver.
#[derive(Debug)]
pub struct Language {
    name: &'static str,
    modes: &'static [(&'static str, &'static str)],
    prepared: OnceLock<Prepared>,
}

/// What `package` and `prepare` have made.
#[derive(Debug)]
struct Prepared {
    driver: PathBuf,
    /// None if the driver was there already.
    project: Option<Project>,
}

/// A package, and a project that depends on it.
#[derive(Debug)]
struct Project {
    /// Where the package is.
    out: PathBuf,
    /// Where the project is.
    work: PathBuf,
    _folder: TempDir,
}

impl Language {
    /// A language of `clients/NAME`.
    #[must_use]
    pub const fn new(name: &'static str, modes: &'static [(&'static str, &'static str)]) -> Self {
        Self { name, modes, prepared: OnceLock::new() }
    }

    /// Uses a driver that cargo has built.
    pub fn with_driver(&self, driver: &str) -> &Self {
        self.prepared.get_or_init(|| Prepared { driver: PathBuf::from(driver), project: None });
        self
    }

    fn folder(&self) -> PathBuf {
        workspace().join("clients").join(self.name)
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.get_or_init(|| {
            if let Some(driver) = std::env::var_os(DRIVER) {
                return Prepared { driver: driver.into(), project: None };
            }
            let folder = tempfile::tempdir().expect("a folder");
            let (out, work) = (folder.path().join("out"), folder.path().join("work"));
            for empty in [&out, &work] {
                std::fs::create_dir(empty).expect("a folder");
            }
            let before = files_below(&self.folder());
            run(Command::new(self.folder().join("package")).arg(&out));
            let built = std::fs::read_dir(&out).expect("the package").count();
            assert!(built > 0, "package has built nothing");
            self.has_no_more_files_than(&before);
            let prepare = workspace().join("tests/conformance").join(self.name).join("prepare");
            run(Command::new(prepare).arg(&out).arg(&work));
            let driver = work.join("driver");
            Prepared { driver, project: Some(Project { out, work, _folder: folder }) }
        })
    }

    fn project(&self) -> &Project {
        self.prepared().project.as_ref().expect("a project: this test needs the package")
    }

    /// Runs a program of `tests/conformance/NAME` against a real leafd, as `PROGRAM WORK SOCKET OUT` with an
    /// empty folder, the socket and the folder of the package. It says itself whether all is well.
    ///
    /// # Panics
    /// If it fails.
    pub fn passes(&self, program: &str) {
        let program = workspace().join("tests/conformance").join(self.name).join(program);
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        std::fs::create_dir(&work).expect("a folder");
        let home = Home::new(folder.path());
        let daemon = home.start();
        let mut command = Command::new(program);
        let output = run(command.arg(&work).arg(home.socket()).arg(&self.project().out));
        println!("{}: {}", self.name, String::from_utf8_lossy(&output.stdout).trim());
        daemon.stop();
    }

    /// Runs the first code block of its README, as a user would after installing the package.
    ///
    /// # Panics
    /// If it fails, or prints no ID of the tag `orders`.
    pub fn runs_the_example_of_its_readme(&self) {
        let readme = std::fs::read_to_string(self.folder().join("README.md")).expect("the README");
        let block = first_block(&readme, self.name);
        let work = &self.project().work;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("example");
        std::fs::write(&file, &block).expect("the example");
        let home = Home::new(folder.path());
        let daemon = home.start();
        let mut example = Command::new(work.join("run-example"));
        without_settings(&mut example);
        example.arg(&file).env("LEAFD_SOCKET", home.socket()).current_dir(folder.path());
        let output = run(&mut example);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let has_id = text.split(|char: char| !char.is_ascii_digit()).any(|word| !word.is_empty());
        assert!(has_id, "it prints no ID: {text:?}");
        let mut client = daemon.client();
        let after = client.next("orders").expect("an ID");
        assert!(after > 1, "it has used no ID of the tag orders: {text:?}");
        println!("{}: the README's example prints {:?}", self.name, text.trim());
        daemon.stop();
    }

    /// Runs the checks of its ecosystem: unit tests, type checker, linters.
    ///
    /// # Panics
    /// If one fails, or writes into the source tree.
    pub fn passes_its_own_checks(&self) {
        let folder = tempfile::tempdir().expect("a folder");
        let before = files_below(&self.folder());
        run(Command::new(self.folder().join("check")).arg(folder.path()));
        self.has_no_more_files_than(&before);
    }

    fn has_no_more_files_than(&self, before: &BTreeSet<PathBuf>) {
        let after = files_below(&self.folder());
        let new: Vec<_> = after.difference(before).collect();
        assert!(new.is_empty(), "something writes into the source tree: {new:?}");
    }

    /// Plays all scenarios in all modes, and compares the outcomes with the table in `docs/clients.md`.
    ///
    /// # Panics
    /// If a scenario fails, or the table says something else.
    pub fn has_the_outcomes_of_the_table(&self) {
        let driver = self.prepared().driver.clone();
        let only = std::env::var(ONLY).unwrap_or_default();
        let mut failed = Vec::new();
        let mut columns = BTreeMap::new();
        for (title, mode) in self.modes {
            let column = Column { title, mode, driver: driver.clone() };
            let outcomes = play_all(&column, &only);
            for (name, outcome) in &outcomes {
                if let Outcome::Failed(why) = outcome {
                    failed.push(format!("{title}: {name}: {why}"));
                }
            }
            columns.insert(*title, outcomes);
        }
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
        if !only.is_empty() {
            return;
        }
        let path = workspace().join("docs/clients.md");
        if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
            Written::change(&path, |table| {
                columns.iter().for_each(|(title, outcomes)| table.set(title, outcomes));
            });
            return;
        }
        let table = Table::read(&std::fs::read_to_string(&path).expect("docs/clients.md"));
        for (title, outcomes) in &columns {
            let differences = table.differences(title, outcomes);
            assert!(
                differences.is_empty(),
                "docs/clients.md says something else; {WRITE}=1 writes what is:\n{}",
                differences.join("\n")
            );
        }
    }
}

/// Plays the scenarios with names that contain `only`. A driver serves until a scenario fails.
fn play_all(column: &Column, only: &str) -> Vec<(&'static str, Outcome)> {
    let (mut driver, about) = column.start();
    println!("{}: {}", column.title, about.all);
    let mut outcomes = Vec::new();
    let scenarios = GROUPS.iter().flat_map(|Group { scenarios, .. }| scenarios.iter());
    for scenario in scenarios.filter(|scenario| scenario.name.contains(only)) {
        let outcome = scenario.play(&mut Stage::new(column, &mut driver, &about));
        if let Outcome::Failed(_) = outcome {
            // Whatever is left in it would disturb the next one.
            driver = column.start().0;
        }
        outcomes.push((scenario.name, outcome));
    }
    driver.finish();
    outcomes
}

/// Runs a command to its end, which has to be a success.
fn run(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{shown}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{shown}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// The files below a folder.
fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(folder) = ahead.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("its kind").is_dir() {
                ahead.push(entry.path());
            } else {
                found.insert(entry.path());
            }
        }
    }
    found
}

/// The first fenced block of code that has this language, by the names that Markdown uses.
fn first_block(readme: &str, language: &str) -> String {
    let names: &[&str] = match language {
        "node" => &["ts", "typescript", "js", "javascript", "mjs"],
        "python" => &["python", "py"],
        "go" => &["go"],
        "java" => &["java"],
        "php" => &["php"],
        other => panic!("{other} has no name in Markdown"),
    };
    let mut lines = readme.lines();
    let opens =
        |line: &&str| line.strip_prefix("```").is_some_and(|info| names.contains(&info.trim()));
    lines.find(opens).unwrap_or_else(|| panic!("the README has no block of {language}"));
    let block: Vec<_> = lines.take_while(|line| !line.starts_with("```")).collect();
    block.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_of_a_readme_is_that_of_its_language() {
        let readme =
            "# x\n```sh\npip install x\n```\n```python\nimport x\nx()\n```\n```python\n```\n";
        assert_eq!(first_block(readme, "python"), "import x\nx()\n");
    }

    #[test]
    fn a_command_that_fails_is_shown() {
        let failed = std::panic::catch_unwind(|| run(Command::new("sh").args(["-c", "exit 3"])));
        assert!(failed.is_err());
    }
}
