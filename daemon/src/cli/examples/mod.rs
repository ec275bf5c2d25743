//! Examples of every command, for its help and its manual page. Tests hold that each command has some,
//! and that they parse.

mod leafctl;
mod leafd;

use std::fmt::Write;

use clap::Command;

/// A command line, and what it is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// What to type. May go on after `|`, `>` or `&&` with other programs.
    pub line: &'static str,
    /// An imperative sentence without a full stop.
    pub purpose: &'static str,
}

const fn example(line: &'static str, purpose: &'static str) -> Example {
    Example { line, purpose }
}

/// The examples of some commands, each with its words.
type Examples = &'static [(&'static str, &'static [Example])];

/// The examples of a command, by its words, such as `leafctl tag create`.
#[must_use]
pub fn of(command: &str) -> &'static [Example] {
    let mut all = leafctl::EXAMPLES.iter().chain(leafd::EXAMPLES);
    all.find(|(words, _)| *words == command).map_or(&[], |(_, examples)| examples)
}

/// Adds the examples to the help of every command below `command`, which has the words `path`.
pub(super) fn in_help(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        in_help(inner, &path)
    });
    let examples = of(path);
    if examples.is_empty() || command.get_after_help().is_some() {
        return command;
    }
    let heading = command.get_styles().get_header();
    let mut text = format!("{heading}Examples:{heading:#}");
    for Example { line, purpose } in examples {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  # {purpose}\n  {line}");
    }
    command.after_help(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::{leafctl, leafd};

    fn programs() -> [Command; 2] {
        [leafctl::Cli::command(), leafd::Arguments::command()]
    }

    /// The words of a command and of all below it.
    fn paths(command: &Command, before: &str, found: &mut BTreeSet<String>) {
        let path = format!("{before}{}", command.get_name());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            paths(inner, &format!("{path} "), found);
        }
        found.insert(path);
    }

    /// The words of the first program in a line of a shell.
    fn words(line: &str) -> Vec<&str> {
        let others = ["|", ">", "<", "&&"];
        line.split_whitespace().take_while(|word| !others.contains(word)).collect()
    }

    #[test]
    fn every_command_has_examples_of_itself_that_parse() {
        let mut all = BTreeSet::new();
        programs().iter().for_each(|program| paths(program, "", &mut all));
        assert!(all.len() > 20, "{all:?}");
        for path in &all {
            assert!(!of(path).is_empty(), "{path} has no example: write one in cli/examples.rs");
            for Example { line, purpose } in of(path) {
                assert!(!purpose.ends_with('.'), "{purpose}");
                let fits = line.len() <= 78 && purpose.len() <= 76;
                assert!(fits, "the help shows it indented, on 80 columns: {line}");
                let words = words(line);
                let program = words.first().copied().unwrap_or_default();
                let command = programs().into_iter().find(|one| one.get_name() == program);
                let parsed = command.expect("a program").try_get_matches_from(&words);
                // clap returns help and versions as errors.
                let parsed = parsed.map(drop).or_else(|error| {
                    if error.use_stderr() { Err(error.to_string()) } else { Ok(()) }
                });
                assert_eq!(parsed, Ok(()), "{line}");
                let of_itself = words.iter().copied().filter(|word| !word.starts_with('-'));
                let own: Vec<_> = path.split(' ').skip(1).collect();
                let typed: Vec<_> = of_itself.collect();
                assert!(own.iter().all(|word| typed.contains(word)), "{path}: {line}");
            }
        }
    }

    #[test]
    fn the_help_of_a_command_ends_with_its_examples() {
        let mut command = in_help(leafctl::Cli::command(), "leafctl");
        let next = command.find_subcommand_mut("next").expect("next");
        let help = next.render_help().to_string();
        assert!(help.contains("Examples:\n  # Get an ID of the biz tag orders\n"), "{help}");
        // The program's own help ends with the exit status.
        assert!(command.render_help().to_string().contains("Exit status: "));
    }

    #[test]
    fn the_help_of_commands_and_options_is_in_the_imperative() {
        fn check(command: &Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let options = command.get_arguments().filter(|argument| !argument.is_positional());
            let helps = options.map(|option| option.get_help().map(ToString::to_string));
            for help in helps.map(Option::unwrap_or_default).chain([about]) {
                let first = help.split([' ', ':', ',']).next().unwrap_or_default();
                let nouns = ["", "The", "A", "An", "How", "Number", "Whether", "IDs", "leafd's"];
                assert!(!nouns.contains(&first), "{}: {help:?}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        programs().iter().for_each(check);
    }
}
