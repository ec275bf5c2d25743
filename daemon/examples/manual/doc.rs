//! The documents in the package. Links to files that are not in the package become plain text, so that
//! no installed document has a dead link.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The package's documents: folders of the repository, and how the file names end.
const DOCUMENTS: [(&str, &str); 8] = [
    ("", "README.md"),
    ("", "SECURITY.md"),
    ("client", "README.md"),
    ("docs", ".md"),
    ("docs/decisions", ".md"),
    ("protocol", "README.md"),
    ("docs/operations", ".md"),
    ("monitoring", "README.md"),
];

/// Examples and data that are copied unchanged: folders, and how the file names end.
const COPIED: [(&str, &str); 4] =
    [("kubernetes", ""), ("monitoring", ".json"), ("monitoring", ".yaml"), ("protocol", ".json")];

/// Documents that have another name in the package.
const RENAMED: [(&str, &str); 1] = [("CHANGELOG.md", "changelog.gz")];

/// Writes the documents of `repository` to `target`.
pub(crate) fn write(repository: &Path, target: &Path) -> io::Result<()> {
    let (documents, copied) = (found(repository, &DOCUMENTS)?, found(repository, &COPIED)?);
    for path in documents.iter().chain(&copied) {
        let to = target.join(path);
        fs::create_dir_all(to.parent().unwrap_or(target))?;
        if copied.contains(path) {
            fs::copy(repository.join(path), &to)?;
            continue;
        }
        let text = fs::read_to_string(repository.join(path))?;
        let here = path.parent().unwrap_or(Path::new(""));
        let kept = |link: &str| {
            let there = normal(&here.join(link.split('#').next().unwrap_or_default()));
            if let Some((_, new)) = RENAMED.iter().find(|(old, _)| Path::new(old) == there) {
                let up = here.components().map(|_| "../").collect::<String>();
                return Some(format!("{up}{new}"));
            }
            let all = documents.iter().chain(&copied);
            let is_there = link.starts_with('#')
                || link.contains("://")
                || all.clone().any(|path| path.starts_with(&there));
            is_there.then(|| link.to_owned())
        };
        fs::write(&to, relinked(&text, kept))?;
    }
    Ok(())
}

/// The files of `repository` in these folders, with these endings.
fn found(repository: &Path, wanted: &[(&str, &str)]) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for (folder, end) in wanted {
        for file in files(&repository.join(folder))? {
            if file.to_string_lossy().ends_with(end) {
                found.insert(Path::new(folder).join(file));
            }
        }
    }
    Ok(found)
}

/// The names of the files in a folder.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.file_name().into());
        }
    }
    Ok(files)
}

/// Removes `.` and `..`: `a/../b` becomes `b`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Replaces each link by what `kept` returns; if that is `None`, `[words](link)` becomes `words`.
fn relinked(text: &str, kept: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (Some((link, later)), Some(open)) = (after.split_once(')'), before.rfind('[')) else {
            out.push_str(before);
            out.push_str("](");
            rest = after;
            continue;
        };
        let (lead, words) = before.split_at(open);
        out.push_str(lead);
        match kept(link) {
            Some(link) => out.push_str(&format!("{words}]({link})")),
            None => out.push_str(&words[1..]),
        }
        rest = later;
    }
    out.push_str(rest);
    out
}
