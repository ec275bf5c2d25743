//! `leafctl completions`, and the answers to a shell that completes a command line. The shell's script
//! calls leafctl again at each Tab, so that it can offer the tags and the layout of the running leafd.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use leaf_client::blocking::Client;
use leaf_client::wire::MAX_TAGS_PER_PAGE;
use leaf_client::{LAYOUT_PRESETS, default_socket_path};
use leafd::cli::completion::{VARIABLE, script};
use leafd::cli::leafctl::{Cli, CompletionShell};

use crate::connect;
use crate::exit::Failure;
use crate::output::{Output, harmless};

/// How long a Tab may wait for leafd.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Prints the script that makes `shell` complete leafctl's command lines.
///
/// # Errors
/// `Output`.
pub(crate) fn print<W: Write>(shell: CompletionShell, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(script(shell).map_err(Failure::Output)?.trim_end())
}

/// Answers the shell, if it is the shell that asks.
pub(crate) fn answer() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let here = std::env::current_dir().ok();
    let environment = CompleteEnv::with_factory(command).var(VARIABLE);
    match environment.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        // An empty variable means nothing.
        Ok(false) => None,
        // Nothing to offer. A message would end up in the middle of the operator's command line.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// The command line, with what leafd knows as values.
fn command() -> Command {
    with_offers(Cli::command())
}

fn with_offers(command: Command) -> Command {
    // A tag that is about to be created is none of those that exist.
    let creates = command.get_name() == "create";
    command.mut_subcommands(with_offers).mut_args(|argument: Arg| {
        match argument.get_id().as_str() {
            "tag" if !creates => argument.add(ArgValueCompleter::new(tags)),
            "layout" => argument.add(ArgValueCompleter::new(layouts)),
            "form" => argument.add(ArgValueCompleter::new(forms)),
            _ => argument,
        }
    })
}

/// The daemon that the unfinished command line names.
fn daemon() -> Option<Client> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let socket = socket_of(&words).unwrap_or_else(default_socket_path);
    connect::to(socket, TIMEOUT).ok()
}

/// The value of `--socket`.
fn socket_of(words: &[OsString]) -> Option<PathBuf> {
    const OPTION: &str = "--socket";
    words.iter().zip(words.iter().skip(1)).find_map(|(word, next)| {
        let joined = word.to_str().and_then(|word| word.strip_prefix(OPTION)?.strip_prefix('='));
        match joined {
            Some(path) => Some(path.into()),
            // bash breaks words at `=`.
            None if word == OPTION && next != "=" => Some(next.into()),
            None => None,
        }
    })
}

/// The tags that begin with what was typed.
fn tags(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(typed), Some(mut client)) = (typed.to_str(), daemon()) else { return Vec::new() };
    let listed = client.tag_list(typed, MAX_TAGS_PER_PAGE).unwrap_or_default();
    // One page: nobody reads more. It begins after what was typed, which may be a whole tag.
    let itself = if typed.is_empty() { None } else { client.tag_show(typed).ok() };
    itself
        .into_iter()
        .chain(listed)
        .filter(|tag| tag.tag.starts_with(typed) && is_plain(&tag.tag))
        .map(|tag| {
            let help = Some(tag.description).filter(|text| !text.is_empty());
            let help = help.map(|text| harmless(&text).into());
            CompletionCandidate::new(tag.tag).help(help)
        })
        .collect()
}

/// Whether every shell takes `word` for one plain argument. An offer ends up on the operator's command
/// line as it is, and any application may name a tag `orders; reboot`.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+,".contains(c);
    !word.starts_with('-') && word.chars().all(plain)
}

/// The forms of an ID that need no further word.
fn forms(typed: &OsStr) -> Vec<CompletionCandidate> {
    const FORMS: [&str; 11] = [
        "decimal",
        "base62",
        "base36",
        "crockford32",
        "padded",
        "dated@UTC",
        "uuid7",
        "uuid8",
        "uuid1",
        "uuid5",
        "objectid",
    ];
    let typed = typed.as_encoded_bytes();
    let fits = FORMS.into_iter().filter(|form| form.as_bytes().starts_with(typed));
    fits.map(CompletionCandidate::new).collect()
}

/// The layouts that have names, and leafd's.
fn layouts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let own = daemon().and_then(|mut client| client.status().ok());
    let own = own.map(|status| status.snowflake.layout).filter(|layout| is_plain(layout));
    let own =
        own.map(|layout| CompletionCandidate::new(layout).help(Some("leafd's layout".into())));
    let named = LAYOUT_PRESETS.map(|(name, _)| CompletionCandidate::new(name));
    let fits = |candidate: &CompletionCandidate| {
        candidate.get_value().as_encoded_bytes().starts_with(typed.as_encoded_bytes())
    };
    named.into_iter().chain(own).filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_that_is_typed_is_asked() {
        let socket = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            socket_of(&words)
        };
        assert_eq!(socket("leafctl --socket /s next "), Some("/s".into()));
        assert_eq!(socket("leafctl next --socket=/s "), Some("/s".into()));
        assert_eq!(socket("leafctl next a"), None);
    }

    #[test]
    fn a_word_that_a_shell_would_interpret_is_not_plain() {
        for word in ["orders", "bill.eu-1", "a/b:c@d", "订单", "41/10/12@1288834974657/1ms"] {
            assert!(is_plain(word), "{word}");
        }
        for word in
            ["a b", "a;b", "$(a)", "`a`", "a'b", "~a", "=a", "a*", "-x", "a\\b", "a!b", "{a}"]
        {
            assert!(!is_plain(word), "{word}");
        }
    }

    #[test]
    fn every_argument_that_is_a_tag_offers_tags() {
        let mut command = command();
        command.build();
        for path in [&["next"][..], &["bench"], &["tag", "show"], &["tag", "set-step"]] {
            let mut inner = &command;
            for name in path {
                inner = inner.find_subcommand(name).expect("a command");
            }
            let tag = inner.get_arguments().find(|arg| arg.get_id() == "tag").expect("a tag");
            assert!(tag.get::<ArgValueCompleter>().is_some(), "{path:?}");
        }
    }
}
