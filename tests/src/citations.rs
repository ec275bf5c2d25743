//! Checks that the tests which a document cites in its tables, as `` `path.rs`: `name_of_a_test` ``,
//! exist.

use std::path::{Path, PathBuf};

/// The citations in the tables of `document` that do not exist in `folder`, as `line: name`. A path may
/// omit its first folders. A name may be shortened by `…` anywhere, and belongs to the path before it
/// in its row.
#[must_use]
pub fn missing(folder: &Path, document: &str) -> Vec<String> {
    let sources = sources(folder);
    assert!(!sources.is_empty(), "no sources in {}", folder.display());
    let mut missing = Vec::new();
    for (number, row) in (1..).zip(document.lines()).filter(|(_, line)| line.starts_with('|')) {
        let mut cited: Vec<&str> = Vec::new();
        // Every other part between backticks is code.
        for code in row.split('`').skip(1).step_by(2) {
            let is_there = if is_path(code) {
                let of_it = sources.iter().filter(|(path, _)| path.ends_with(code));
                cited = of_it.map(|(_, text)| text.as_str()).collect();
                !cited.is_empty()
            } else {
                !is_test(code) || cited.iter().any(|text| functions(text).any(|f| fits(f, code)))
            };
            if !is_there {
                missing.push(format!("{number}: {code}"));
            }
        }
    }
    missing
}

/// The Rust files below `folder` with their texts, except in `target` and hidden folders.
pub(crate) fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
    found
}

/// Whether it is the path of one file, unlike `hostile*.rs`.
fn is_path(code: &str) -> bool {
    code.ends_with(".rs") && !code.contains(['*', ' '])
}

/// Whether it is the name of a test, which is a sentence. Shorter names are columns, tables and
/// functions.
fn is_test(code: &str) -> bool {
    let is_name =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_…".contains(char);
    code.chars().all(is_name) && (code.matches('_').count() > 2 || code.contains('…'))
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next())
}

/// Whether `name` matches `pattern`, in which `…` stands for anything.
pub(crate) fn fits(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.split_once(part) {
            Some((_, after)) => name = after,
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_renamed_moved_or_gone_is_missing_and_a_shortened_name_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::create_dir(path.join("src")).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("a file");
        write("src/a.rs", "fn one_two_three_four() {}\nfn five_six_of_seven_eight<T>() {}");
        write("src/b.rs", "fn one_two_three() {}");
        let page = "`c.rs` in a text\n\
                    | A1 | `src/a.rs`: `one_two_three_four`, `five_…`, `…_of_…_eight`; `a_column` |\n\
                    | A2 | `b.rs`: `one_two_three_four`, `one_…_four`; `src/*.rs` |\n\
                    | A3 | `one_two_three_four` without a file, `src/c.rs` |\n";
        let expected =
            ["3: one_two_three_four", "3: one_…_four", "4: one_two_three_four", "4: src/c.rs"];
        assert_eq!(missing(path, page), expected);
    }
}
