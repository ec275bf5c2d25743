//! Writes the manual pages and completions of both programs, and the package's documents: `manual
//! DIRECTORY`. It generates the pages from the command lines, so that the two always agree.

mod doc;
mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser};
use clap_complete::{Shell, generate_to};
use clap_mangen::roff::{Roff, bold, roman};
use leafd::cli::leafctl::CompletionShell;
use leafd::cli::{completion, leafctl, leafd as daemon};

/// Write the manual pages to DIRECTORY/man, the completions to DIRECTORY/bash, zsh and fish, and the
/// documents to DIRECTORY/doc
#[derive(Debug, Parser)]
struct Arguments {
    /// Created if it does not exist
    directory: PathBuf,
}

fn main() -> io::Result<()> {
    let directory = Arguments::parse().directory;
    let man = directory.join("man");
    fs::create_dir_all(&man)?;
    fs::write(man.join("leafd.toml.5"), configuration(leafd::config::DEFAULT))?;
    fs::write(directory.join("changelog.Debian"), debian_changelog())?;
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    doc::write(repository, &directory.join("doc"))?;
    let programs = [(daemon::Arguments::command(), "8"), (leafctl::Cli::command(), "1")];
    for (program, section) in programs {
        let mut built = program.disable_help_subcommand(true);
        built.build();
        pages(&built, section, None, &man)?;
    }
    let shells = [
        (Shell::Bash, CompletionShell::Bash, "leafctl.bash"),
        (Shell::Zsh, CompletionShell::Zsh, "_leafctl"),
        (Shell::Fish, CompletionShell::Fish, "leafctl.fish"),
    ];
    for (shell, shell_of_leafctl, file) in shells {
        let folder = directory.join(shell.to_string());
        fs::create_dir_all(&folder)?;
        generate_to(shell, &mut daemon::Arguments::command(), "leafd", &folder)?;
        fs::write(folder.join(file), completion::script(shell_of_leafctl)?)?;
    }
    Ok(())
}

/// Debian's changelog of the packaging; it refers to leafd's own changelog.
fn debian_changelog() -> String {
    format!(
        "leafd ({}-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n \
         -- The leafd project <leafd@localhost>  Sat, 21 Nov 2026 12:00:00 +0000\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Writes one page for the command and one for each of its subcommands.
fn pages(command: &Command, section: &str, parent: Option<&str>, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages(inner, section, Some(name), folder)?;
    }
    let (file, page) = page::render(command, section, parent)?;
    fs::write(folder.join(file), page)
}

/// The manual page of the configuration: each section and key with the comment above it.
fn configuration(default: &str) -> String {
    let mut page = Roff::new();
    page.control("TH", ["leafd.toml", "5", "", concat!("leafd ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman("leafd.toml - configuration of leafd(8)")]);
    page.control("SH", ["DESCRIPTION"]);
    let (mut comment, mut keys) = (Vec::new(), Vec::new());
    for line in default.lines().chain([""]) {
        if !line.contains(" = ") || line.starts_with('#') {
            key(&mut page, &mut keys, &mut comment);
        }
        if let Some(words) = line.strip_prefix('#') {
            comment.push(words);
        } else if let Some(section) = line.strip_prefix('[') {
            page.control("SH", [format!("[{}", section).as_str()]);
        } else if line.is_empty() {
            prose(&mut page, &mut comment);
        } else {
            keys.push(line);
        }
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("leafd(8), leafctl(1)")]);
    page.render()
}

/// Adds the keys that share a comment.
fn key(page: &mut Roff, keys: &mut Vec<&str>, comment: &mut Vec<&str>) {
    if keys.is_empty() {
        return;
    }
    for (number, key) in keys.drain(..).enumerate() {
        page.control(if number == 0 { "TP" } else { "TQ" }, []);
        page.text([bold(key)]);
    }
    prose(page, comment);
}

/// Adds a comment; its indented lines are an example.
fn prose(page: &mut Roff, comment: &mut Vec<&str>) {
    let is_example = |line: &&str| line.starts_with("  ");
    for lines in comment.chunk_by(|one, next| is_example(one) == is_example(next)) {
        if lines.first().is_some_and(is_example) {
            page.control("nf", []);
            page.text([roman(lines.join("\n"))]);
            page.control("fi", []);
        } else {
            page.text([roman(lines.join(""))]);
        }
    }
    comment.clear();
}
