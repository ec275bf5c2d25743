//! The manual page of one command: what clap knows about it, then its exit status, files, examples and
//! where to read on.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use leafd::cli::examples::{self, Example};

/// Exit statuses that all commands of leafctl have.
const LEAFCTL_ENDS: [(&str, &str); 5] = [
    ("0", "Done."),
    ("64", "The command line is wrong, or leafd refused for good (errors 2xx)."),
    ("69", "leafd is unreachable, answered too late, or cannot do it now (errors 3xx)."),
    ("74", "The input cannot be read, or the output cannot be written."),
    ("76", "The peer does not speak leafd's protocol, or is too old for the call (errors 1xx)."),
];

const LEAFD_ENDS: [(&str, &str); 7] = [
    ("0", "Done, or stopped by SIGTERM or SIGINT."),
    ("64", "The command line is wrong."),
    ("70", "A defect in leafd."),
    ("71", "The operating system refuses something basic, or another program has the port."),
    ("73", "The socket cannot be created."),
    ("74", "Reading or writing failed."),
    ("75", "Another leafd has the state directory or the socket; retry later."),
];

/// The last of leafd's exit statuses.
const LEAFD_CONFIG: (&str, &str) =
    ("78", "The configuration is wrong, or does not fit what is on disk; a retry is useless.");

/// Commands with an exit status of their own.
const OWN_ENDS: [(&str, (&str, &str)); 5] = [
    ("leafctl", ("1", "bench --verify found an ID twice, or doctor something bad.")),
    ("leafctl-doctor", ("1", "Something is bad; the report says what.")),
    ("leafctl-bench", ("1", "--verify found an ID twice.")),
    ("leafd", ("1", "leafd audit found leases that overlap.")),
    ("leafd-audit", ("1", "Two leases overlap.")),
];

const SOCKETS: [(&str, &str); 2] = [
    ("/run/leafd/leafd.sock", "The socket of the system's leafd."),
    ("$XDG_RUNTIME_DIR/leafd/leafd.sock", "The socket of a leafd that an ordinary user runs."),
];

const LEAFD_FILES: [(&str, &str); 4] = [
    ("/etc/leafd/leafd.toml", "The configuration, if it exists; see leafd.toml(5)."),
    ("/var/lib/leafd", "The state directory. Never copy, restore or delete it."),
    ("/var/lib/leafd/leases.log", "The leases of this host, for leafd-audit(8)."),
    ("/etc/credstore", "Passwords, as systemd's credentials."),
];

const COMPLETION_FILES: [(&str, &str); 3] = [
    ("/usr/share/bash-completion/completions/leafctl", "The package's script for bash."),
    ("/usr/share/zsh/vendor-completions/_leafctl", "For zsh."),
    ("/usr/share/fish/vendor_completions.d/leafctl.fish", "For fish."),
];

/// Renders the page of `command`, whose parent's page is `parent`.
pub(crate) fn render(
    command: &Command,
    section: &str,
    parent: Option<&str>,
) -> io::Result<(String, String)> {
    let version = env!("CARGO_PKG_VERSION");
    let of_clap = command.clone().subcommand_help_heading("COMMANDS");
    let man = Man::new(of_clap).section(section).manual("leafd");
    let man = man.source(format!("leafd {version}"));
    let mut page = rendered(|to| man.render_title(to))?;
    page += body(&rendered(|to| man.render_name_section(to))?);
    page += body(&rendered(|to| man.render_synopsis_section(to))?);
    page += body(&rendered(|to| man.render_description_section(to))?);
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page += body(&rendered(|to| man.render_options_section(to))?);
    }
    if inner(command).next().is_some() {
        page += body(&rendered(|to| man.render_subcommands_section(to))?);
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    page += body(&ours(command, name, section, parent).render());
    Ok((man.get_filename(), page))
}

fn rendered(write: impl Fn(&mut dyn io::Write) -> io::Result<()>) -> io::Result<String> {
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// A section without the preamble that roff writes before each; the title's is enough.
fn body(section: &str) -> &str {
    section.find(".SH").and_then(|at| section.get(at..)).unwrap_or(section)
}

fn inner(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set())
}

/// The sections that clap does not know.
fn ours(command: &Command, name: &str, section: &str, parent: Option<&str>) -> Roff {
    let is_leafctl = name.starts_with("leafctl");
    let mut page = Roff::new();
    page.control("SH", ["EXIT STATUS"]);
    let own = OWN_ENDS.iter().find(|(command, _)| *command == name).map(|(_, end)| *end);
    if name == "leafd-ctl" {
        page.text([roman("As leafctl(1).")]);
    } else if is_leafctl {
        table(&mut page, LEAFCTL_ENDS.into_iter().chain(own), bold);
    } else {
        let ends = LEAFD_ENDS.into_iter().chain([LEAFD_CONFIG]).chain(own);
        table(&mut page, ends, bold);
    }
    if is_leafctl {
        page.control("SH", ["ENVIRONMENT"]);
        let variable = ("LEAFD_SOCKET", "The socket to connect to, unless there is --socket.");
        table(&mut page, [variable], bold);
    }
    page.control("SH", ["FILES"]);
    let files: &[_] = match (name, is_leafctl) {
        ("leafctl-completions", _) => &COMPLETION_FILES,
        ("leafd-ctl", _) | (_, true) => &SOCKETS,
        (_, false) => &LEAFD_FILES,
    };
    table(&mut page, files.iter().copied(), italic);
    page.control("SH", ["EXAMPLES"]);
    for Example { line, purpose } in examples::of(&name_in_words(command, name)) {
        page.control("PP", []);
        page.text([roman(format!("{purpose}:"))]);
        page.control("PP", []);
        page.control("RS", ["4"]);
        page.control("nf", []);
        page.text([roman(*line)]);
        page.control("fi", []);
        page.control("RE", []);
    }
    page.control("SH", ["SEE ALSO"]);
    // A name that is broken in two cannot be copied.
    page.control("nh", []);
    page.text([roman(see_also(command, name, section, parent).join(", "))]);
    page
}

/// The command as it is typed.
fn name_in_words(command: &Command, name: &str) -> String {
    command.get_bin_name().map_or_else(|| name.to_owned(), ToOwned::to_owned)
}

/// A list of words, each with what it means, in the order of the words if they are numbers.
fn table<'a>(
    page: &mut Roff,
    rows: impl IntoIterator<Item = (&'a str, &'a str)>,
    form: impl Fn(&'a str) -> Inline,
) {
    let mut rows: Vec<_> = rows.into_iter().collect();
    // Stable: words that are no numbers stay where they are.
    rows.sort_by_key(|(word, _)| word.parse::<u8>().unwrap_or_default());
    for (word, meaning) in rows {
        page.control("TP", []);
        page.text([form(word)]);
        page.text([roman(meaning)]);
    }
}

/// The pages of the commands above and below, and those of the project.
fn see_also(command: &Command, name: &str, section: &str, parent: Option<&str>) -> Vec<String> {
    let mut pages: Vec<_> = parent.iter().map(|parent| format!("{parent}({section})")).collect();
    pages.extend(inner(command).map(|inner| format!("{name}-{}({section})", inner.get_name())));
    for page in ["leafctl(1)", "leafd(8)", "leafd.toml(5)"] {
        let is_new = !pages.iter().any(|known| known == page);
        if is_new && page.split('(').next() != Some(name) {
            pages.push(page.to_owned());
        }
    }
    // Where the package installs the operator's manual.
    pages.push("/usr/share/doc/leafd/docs/operations/README.md".to_owned());
    pages
}
