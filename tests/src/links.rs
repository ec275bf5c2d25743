//! Checks that links in Markdown lead to existing files and headings.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The dead links of all documents in `folder`, as `document: link`. Links to other hosts are not
/// checked.
#[must_use]
pub fn dead(folder: &Path, documents: &[PathBuf]) -> Vec<String> {
    assert!(!documents.is_empty(), "no documents in {}", folder.display());
    let read = |path: &Path| std::fs::read_to_string(path).expect("a document");
    let texts: HashMap<PathBuf, String> = documents
        .iter()
        .map(|path| folder.join(path))
        .map(|path| (path.canonicalize().expect("a document"), prose(&read(&path))))
        .collect();
    let mut dead = Vec::new();
    for (document, text) in &texts {
        for link in links(text).filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => Some(document.clone()),
                path => document.parent().and_then(|here| here.join(path).canonicalize().ok()),
            };
            let leads = target.filter(|target| target.starts_with(folder)).is_some_and(|target| {
                let headings = texts.get(&target).map(|text| headings(text));
                heading.is_empty() || headings.is_some_and(|all| all.contains(heading))
            });
            if !leads {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    dead.sort();
    dead
}

/// All Markdown files below `folder`, except in `target` and hidden folders.
#[must_use]
pub fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    found
}

/// The text without code blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The targets of `[words](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    // A target with a space or a backtick is not a link but code.
    let parts = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    parts.map(|(link, _)| link).filter(|link| !link.contains([' ', '\n', '`']))
}

/// The anchors of the headings, as GitHub generates them.
fn headings(text: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let name: String = words
            .chars()
            .filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char))
            .map(|char| if char == ' ' { '-' } else { char })
            .collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_or_heading_or_out_of_the_folder_is_dead() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("a folder");
        let page = "# One `two`\n## x\n## x\n[a](#one-two) [b](#x-1) [c](other.md#here) [d](.)\n\
                    ```\n[e](nowhere)\n```\n[f](https://example.org/x)\n\
                    [g](nowhere.md) [h](#x-2) [i](other.md#there) [j](/etc/passwd)\n";
        std::fs::write(path.join("page.md"), page).expect("a page");
        std::fs::write(path.join("other.md"), "### Here!\n").expect("a page");
        let dead = dead(&path, &documents(&path));
        let links: Vec<_> = dead.iter().filter_map(|dead| dead.rsplit(' ').next()).collect();
        assert_eq!(links, ["#x-2", "/etc/passwd", "nowhere.md", "other.md#there"]);
    }
}
