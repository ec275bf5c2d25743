//! The table in `docs/clients.md`: a section for each group of scenarios, a row for each sentence, a
//! column for each client. It lies between two markers, and each test program knows its own columns only.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek, Write as _};
use std::path::Path;

use super::scenario::{Need, Outcome};
use super::scenarios::GROUPS;

const BEGIN: &str = "<!-- The conformance suite writes from here … -->";
const END: &str = "<!-- … to here. -->";

/// The columns in their order.
pub const COLUMNS: [&str; 8] =
    ["Rust, async", "Rust, blocking", "Python, asyncio", "Python", "Java", "Go", "Node", "PHP"];

/// What a column says while its client was not tested.
const UNKNOWN: &str = "?";

/// The cells by sentence and column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<(String, String), String>);

impl Table {
    /// Reads the table of a page.
    #[must_use]
    pub fn read(page: &str) -> Self {
        let (_, rest) = page.split_once(BEGIN).unwrap_or_else(|| panic!("the page lacks {BEGIN}"));
        let (inside, _) = rest.split_once(END).unwrap_or_else(|| panic!("the page lacks {END}"));
        let mut cells = BTreeMap::new();
        let mut columns: Vec<String> = Vec::new();
        for line in inside.lines().filter(|line| line.starts_with('|')) {
            let row: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let Some((sentence, rest)) = row.split_first() else { continue };
            if sentence.starts_with("---") {
                continue;
            }
            if sentence.is_empty() {
                columns = rest.iter().map(|&column| column.to_owned()).collect();
                continue;
            }
            for (column, cell) in columns.iter().zip(rest) {
                cells.insert(((*sentence).to_owned(), column.clone()), (*cell).to_owned());
            }
        }
        Self(cells)
    }

    /// Enters the outcomes of a column.
    pub fn set(&mut self, column: &str, outcomes: &[(&str, Outcome)]) {
        for (name, outcome) in outcomes {
            let key = (sentence_of(name).to_owned(), column.to_owned());
            self.0.insert(key, outcome.cell().to_owned());
        }
    }

    /// Where the outcomes of a column differ from the table.
    #[must_use]
    pub fn differences(&self, column: &str, outcomes: &[(&str, Outcome)]) -> Vec<String> {
        let mut differences = Vec::new();
        let mut rows: Vec<&str> = self
            .0
            .keys()
            .filter(|(_, other)| other == column)
            .map(|(row, _)| row.as_str())
            .collect();
        for (name, outcome) in outcomes {
            let sentence = sentence_of(name);
            rows.retain(|row| *row != sentence);
            let written = self.0.get(&(sentence.to_owned(), column.to_owned()));
            if written.map(String::as_str) != Some(outcome.cell()) {
                let written = written.map_or("no row", |cell| cell);
                differences.push(format!("{column}: {name}: {} and not {written}", outcome.cell()));
            }
        }
        differences.extend(rows.iter().map(|row| format!("{column}: no scenario says {row:?}")));
        differences
    }

    /// The text between the markers.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        let line = |text: &mut String, cells: &[&str]| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a string takes it");
        };
        for group in GROUPS {
            writeln!(text, "\n### {}\n", group.title).expect("a string takes it");
            line(&mut text, &[&[""], COLUMNS.as_slice()].concat());
            writeln!(text, "|---{}|", "|:-:".repeat(COLUMNS.len())).expect("a string takes it");
            for scenario in group.scenarios {
                let cell = |column: &str| {
                    let key = (scenario.sentence.to_owned(), column.to_owned());
                    self.0.get(&key).map_or(UNKNOWN, String::as_str)
                };
                let cells = COLUMNS.map(cell);
                line(&mut text, &[&[scenario.sentence], cells.as_slice()].concat());
            }
        }
        text.push_str("\n### What does not apply\n\n");
        for need in Need::ALL {
            let columns: Vec<&str> = COLUMNS
                .into_iter()
                .filter(|column| {
                    self.0.iter().any(|((_, other), cell)| other == column && cell == need.mark())
                })
                .collect();
            if !columns.is_empty() {
                let (mark, reason) = (need.mark(), need.reason());
                writeln!(text, "- {mark} {}: {reason}.", columns.join("; ")).expect("it takes it");
            }
        }
        text.push('\n');
        text
    }
}

fn sentence_of(name: &str) -> &'static str {
    let mut all = GROUPS.iter().flat_map(|group| group.scenarios);
    let found = all.find(|scenario| scenario.name == name);
    found.unwrap_or_else(|| panic!("there is no scenario {name}")).sentence
}

/// The page as it is written.
#[derive(Debug)]
pub struct Written;

impl Written {
    /// Changes the table of a page. Programs that do so at the same time wait for each other.
    ///
    /// # Panics
    /// If the page cannot be read or written.
    pub fn change(path: &Path, change: impl FnOnce(&mut Table)) {
        let mut file = File::options().read(true).write(true).open(path).expect("the page");
        file.lock().expect("a lock");
        let mut page = String::new();
        file.read_to_string(&mut page).expect("the page");
        let mut table = Table::read(&page);
        change(&mut table);
        let (before, rest) = page.split_once(BEGIN).expect("the marker");
        let (_, after) = rest.split_once(END).expect("the marker");
        let page = format!("{before}{BEGIN}\n{}{END}{after}", table.render());
        file.rewind().expect("its start");
        file.write_all(page.as_bytes()).expect("the page");
        file.set_len(page.len() as u64).expect("its length");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(table: &Table) -> String {
        format!("# Clients\n{BEGIN}\n{}{END}\nMore.\n", table.render())
    }

    fn all(outcome: &Outcome) -> Vec<(&'static str, Outcome)> {
        let scenarios = GROUPS.iter().flat_map(|group| group.scenarios);
        scenarios.map(|scenario| (scenario.name, outcome.clone())).collect()
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut table = Table::read(&page(&Table::default()));
        assert_eq!(table.differences("Go", &all(&Outcome::Held)).len(), all(&Outcome::Held).len());
        table.set("Go", &all(&Outcome::Held));
        table.set("PHP", &all(&Outcome::DoesNotApply(Need::Pools)));
        assert_eq!(Table::read(&page(&table)), table);
        assert!(table.differences("Go", &all(&Outcome::Held)).is_empty());
        assert!(page(&table).contains("- –³ PHP: there are no pools.\n"));
        assert!(!page(&table).contains("–² "));
    }

    #[test]
    fn a_row_without_a_scenario_is_a_difference() {
        let mut outcomes = all(&Outcome::Held);
        let mut table = Table::default();
        table.set("Go", &outcomes);
        outcomes.pop();
        assert_eq!(table.differences("Go", &outcomes).len(), 1);
    }

    #[test]
    fn no_two_scenarios_have_the_same_name_or_sentence() {
        let scenarios: Vec<_> = GROUPS.iter().flat_map(|group| group.scenarios).collect();
        for (number, one) in scenarios.iter().enumerate() {
            for other in &scenarios[..number] {
                assert_ne!(one.name, other.name);
                assert_ne!(one.sentence, other.sentence);
            }
            assert!(!one.sentence.contains('|'), "{} breaks the table", one.name);
        }
    }
}
